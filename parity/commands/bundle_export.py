"""`parity export --bundle`: the model, and what proves where it runs that it is still the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ..inputs.dynamic_axes import with_dynamic_axes
from ..inputs.model_file import ModelFile, load
from ..options import OptionKeywords, Options
from ..report.layout import echo
from ..support import files
from ..support.progress import TerminalProgress
from .conversion import check_loaded
from .outcome import require_parity

if TYPE_CHECKING:
    from ..report.report import Report


def export_bundle(
    model: str,
    folder: str,
    verbose: bool,
    options: OptionKeywords,
    dynamic: Sequence[str],
    opset: int | None,
    *,
    external_data: Any,
    html: str | None,
) -> None:
    """Write a new folder with the model, inputs and outputs of torch, their bars, a card, and programs that compare.

    Args:
        model: the model file; the first of its inputs are those of the folder.
        folder: the folder.
        verbose: whether everything is printed.
        options: options of the comparison with torch.
        dynamic: axes that may vary.
        opset: version of the operator set; None for the lowest that holds the model without loss.
        external_data: as for `to_onnx`.
        html: where the report is written as a page; None for no page.
    """
    with files.new_folder(folder) as inside:
        path = inside / "model.onnx"
        with TerminalProgress() as progress:
            progress.stage("load", None)
            user_file = with_dynamic_axes(load(model, options["seed"]), dynamic)
            report = check_loaded(
                user_file, verbose, options, progress, save_onnx=path, opset=opset, external_data=external_data
            )
        require_parity(report, verbose, folder, html)
        _add_vectors(inside, user_file, options, report)
    echo(f"wrote {folder}; to see whether the model is the same somewhere: python {Path(folder) / 'verify.py'}")


def _add_vectors(folder: Path, user_file: ModelFile, options: OptionKeywords, report: Report) -> None:
    """Run torch in float64 on the first inputs, and write them and the outputs."""
    import numpy as np

    from ...converter.onnx_in.importing import from_onnx, read_model
    from ...runtime import tree
    from ...runtime.ir.types import as_dtype
    from ...runtime.programs.call import as_array
    from ..deployment.bundle import Vector, Verdict, write_bundle
    from ..dtypes import cast_floating
    from ..sides.records import OUTPUT, Run
    from ..sides.torch_side import TorchSide

    chosen = Options(**options)
    side = TorchSide.of_options("torch", user_file.module, user_file.args, user_file.kwargs, chosen)
    truth = side.run(Run("float64", grads=False, inner=False))
    graph = read_model(folder / "model.onnx").graph
    working = as_dtype(chosen.dtype)
    leaves = tree.match_call(from_onnx(folder / "model.onnx").arguments, user_file.args, user_file.kwargs)
    inputs = [
        Vector(value.name, cast_floating(as_array(leaf), working))
        for value, leaf in zip(graph.input, leaves, strict=True)
    ]
    keys = truth.root_keys(OUTPUT)
    names = [value.name for value in graph.output][: len(keys)]
    outputs = [
        Vector(name, cast_floating(np.asarray(truth.values[key]), working), _bar(report, key.slot))
        for name, key in zip(names, keys, strict=True)
    ]
    sentence = report.network_verdict.sentence
    judged = sum(bool(cell.comparisons) for cell in report.cells.values())
    write_bundle(folder, inputs, outputs, Verdict(report.model, sentence, judged, chosen.dtype))


def _bar(report: Report, slot: str) -> float:
    """Return by how much an output may differ in ONNX Runtime, on the first inputs.

    Raises:
        UsageError: it wasn't compared.
    """
    bars = [
        c.bar
        for c in report.cells[""].comparisons
        if (c.side, c.check, c.kind, c.tensor, c.input) == ("onnxruntime", "rounding", "output", slot, 1)
        and not (c.sizes or c.probe)
    ]
    if not bars:
        raise UsageError(f"the output {slot} wasn't compared in ONNX Runtime, so there is no bar for a bundle")
    return float(max(bars))
