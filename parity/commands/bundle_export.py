"""`parity export --bundle`: the model, and what proves where it runs that it is still the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..inputs.model_file import ModelFile
from ..options import OptionKeywords, Options
from ..report.layout import echo, paragraph, print_lines
from ..support import files
from .arguments.export import Export
from .conversion import loaded
from .outcome import require_parity

if TYPE_CHECKING:
    from ..jobs.deployment.calibration import Calibration
    from ..report.report import Report
    from ..sides.records import Array

MEANINGLESS = 0.3
"""The error of the outputs, relative to their norm, above which a bundle of a quantized file tells little."""


def export_bundle(request: Export) -> None:
    """Write a new folder with the model, inputs and outputs of torch, their bars, a card, and programs that compare.

    The inputs are the first ones of the model file.
    """
    folder, verbose = request.target.path, request.reports.verbose
    with files.new_folder(folder) as inside:
        path = inside / "model.onnx"
        with loaded(request.model, request.inputs.seed, verbose, request.inputs.dynamic, with_port=True) as opened:
            from ..checking.model_files import judge_model_file

            user_file, progress = opened
            report = judge_model_file(
                user_file, progress, request.options, save_onnx=path, opset=request.target.opset,
                external_data=request.external_data,
            )  # fmt: skip
        require_parity(report, verbose, folder, request.reports.html)
        _add_vectors(inside, user_file, request.options, report)
    echo(f"wrote {folder}; to see whether the model is the same somewhere: python {Path(folder) / 'verify.py'}")


def _add_vectors(folder: Path, user_file: ModelFile, options: OptionKeywords, report: Report) -> None:
    """Run torch in float64 on the first inputs, and write them and the outputs."""
    import numpy as np

    from ...converter.onnx_in.importing import read_model
    from ...runtime.ir.types import as_dtype
    from ..checking.engine import check
    from ..dtypes import cast_floating
    from ..jobs.deployment.bundle import Vector, Verdict, write_bundle
    from ..sides.records import OUTPUT
    from ..sides.run import OUTPUTS, Run
    from ..sides.torch_side import TorchSide

    chosen = Options(**options)
    side = TorchSide.of_options("torch", user_file.module, user_file.args, user_file.kwargs, chosen)
    truth = side.run(Run("float64", OUTPUTS))
    graph = read_model(folder / "model.onnx").graph
    working = as_dtype(chosen.dtype)
    arrays = named_inputs(folder / "model.onnx", user_file)
    inputs = [Vector(name, cast_floating(array, working)) for name, array in arrays.items()]
    alone = report
    if report.inputs > 1:  # of several inputs, the report keeps the worst comparison, which may not be the first one's
        quick = options.copy()
        quick["grads"], quick["probe"] = False, False
        alone = check(user_file.module, user_file.args, user_file.kwargs, **quick)
    keys = truth.root_keys(OUTPUT)
    names = [value.name for value in graph.output][: len(keys)]
    outputs = [
        Vector(name, cast_floating(np.asarray(truth.values[key]), working), _bar(alone, key.slot))
        for name, key in zip(names, keys, strict=True)
    ]
    sentence = report.network_verdict.sentence
    judged = sum(bool(cell.comparisons) for cell in report.cells.values())
    notes = print_fallback(folder / "model.onnx")
    write_bundle(folder, inputs, outputs, Verdict(report.model, sentence, judged, chosen.dtype, notes=notes))


def named_inputs(path: Path, user_file: ModelFile) -> dict[str, Array]:
    """Return the first inputs of a model file by the names that they have in an ONNX file that was written from it."""
    from ...converter.onnx_in.importing import from_onnx, read_model
    from ...runtime import tree
    from ...runtime.programs.call import as_array

    leaves = tree.match_call(from_onnx(path).arguments, user_file.args, user_file.kwargs)
    names = (value.name for value in read_model(path).graph.input)
    return {name: as_array(leaf) for name, leaf in zip(names, leaves, strict=True)}


def add_quantized_vectors(
    folder: Path, floats: Path, samples: Calibration, report: Report, bits: int, taken_from: str
) -> None:
    """Add to a folder with a quantized `model.onnx` the inputs of the first sample, the outputs of the float network in
    float64, and the bars that quantizing leaves.

    Args:
        folder: the folder.
        floats: the float32 file.
        samples: inputs by name.
        report: the comparison of the quantized file with the float32 file.
        bits: of weights.
        taken_from: which samples the errors are of, in words.
    """
    from ..jobs.deployment.bundle import Verdict, write_bundle
    from ..jobs.deployment.quantized_vectors import quantized_vectors

    vectors = quantized_vectors(floats, folder / "model.onnx", samples, 0)
    notes = [f"{visible_name(name)} isn't compared: quantizing changes its integers" for name in vectors.left_out]
    if vectors.error > MEANINGLESS:
        notes.append(
            f"quantizing changes the outputs by {vectors.error:.0%} of their norm, so that the bars tell little: keep "
            "Cells in float32 (--budget)"
        )
    for note in notes:
        print_note(note)
    notes += print_fallback(folder / "model.onnx")
    judged = sum(bool(cell.comparisons) for cell in report.cells.values())
    sentence = f"{report.network_verdict.sentence}, as its float32 file, and weights and steps are right"
    bars = (
        "Two right kernels may round a value\nmidway between two steps either way: an output may differ by twice the "
        f"largest error that quantizing made\n{taken_from}, here {vectors.error:.2%} of the norm of the outputs."
    )
    dtype = f"{bits} bits and float32"
    write_bundle(folder, vectors.inputs, vectors.outputs, Verdict(report.model, sentence, judged, dtype, bars, notes))


def _bar(report: Report, slot: str) -> float:
    """Return by how much an output may differ in ONNX Runtime, by a report on the first inputs alone.

    Raises:
        UsageError: it wasn't compared.
    """
    bars = [
        c.bar
        for c in report.cells[""].comparisons
        if (c.side, c.check, c.kind, c.tensor) == ("onnxruntime", "rounding", "output", slot)
        and not (c.sizes or c.probe)
    ]
    if not bars:
        raise UsageError(f"the output {slot} wasn't compared in ONNX Runtime, so there is no bar for a bundle")
    return float(max(bars))


def print_fallback(path: Path) -> list[str]:
    """Print, and return, remarks on the nodes of a file that accelerators would leave to the CPU."""
    from ..jobs.deployment.fallback import fallback_notes

    notes = fallback_notes(path)
    for note in notes:
        print_note(note)
    return notes


def print_note(note: str) -> None:
    """Print a remark, wrapped to the width of the terminal."""
    console = Console()
    print_lines(paragraph(f"note: {note}", console.width), console)
