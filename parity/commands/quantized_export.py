"""`parity export --int8`: the float32 file is judged by torch, and the quantized one by the float32 file."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.errors import UsageError
from ..inputs.model_file import load
from ..report.layout import echo
from ..support import files
from ..support.progress import ProgressDisplay
from .arguments.export import Export
from .bundle_export import add_quantized_vectors, named_inputs, print_fallback
from .conversion import check_model_file, convert_model_file
from .outcome import print_report, require_parity
from .quantization_errors import FLOAT, QUANTIZED, measure_errors

if TYPE_CHECKING:
    from ..jobs.deployment.calibration import Calibration
    from ..report.report import Report
    from ..results.quantization_costs import QuantizationCosts

SAMPLE = "sample.npz"
OPSET = 20
"""From 21 on, QuantizeLinear has an attribute for the dtype of codes. ONNX Runtime 1.31 makes signed codes unsigned
where they are quicker, leaves the attribute, and refuses its own graph. From 23 on, attention is one operator, which
isn't quantized.
"""


def export_quantized(request: Export, bits: int) -> None:
    """Write a model file as a quantized ONNX file, or a bundle of it, if both steps to it are right.

    Args:
        asked: the command line.
        bits: of weights: 8, or 4 in blocks.
    """
    opset, check, verbose = request.target.opset or OPSET, not request.checking.no_check, request.reports.verbose
    seed, path = request.inputs.seed, request.target.path
    if request.target.bundle is not None:
        files.require_new_folder(path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if check:
            report = check_model_file(
                request.model, verbose, request.options, request.inputs.dynamic, save_onnx=folder / FLOAT, opset=opset
            )
            require_parity(report, verbose, path, None)
            _require_judgeable(folder / FLOAT, path)
        else:
            from ...converter import to_onnx

            to_onnx(
                convert_model_file(request.model, seed, verbose, request.inputs.dynamic), folder / FLOAT, opset=opset
            )
        calibration = _quantize(folder, request.precision.calibrate, bits)
        costs = None
        if calibration is not None:
            costs = measure_errors(folder, calibration, load(request.model, seed).loss, request.precision, bits)
        if not check:
            _write(folder, path, check=False)
            return
        report = _judge(folder, request, calibration, costs)
        if request.target.bundle is not None:
            samples = calibration or [named_inputs(folder / FLOAT, load(request.model, seed))]
            _write_bundle(folder, path, samples, report, bits, calibrated=calibration is not None)
        else:
            _write(folder, path, check=True)


def _require_judgeable(path: Path, output: str) -> None:
    """Raise `UsageError` for a float32 file above 2 GB, whose tensors don't fit into the models that are compared."""
    from ...runtime.lowering.external_data import model_size
    from ...runtime.lowering.writing import MODEL_LIMIT

    size = model_size(path)
    if size > MODEL_LIMIT:
        raise UsageError(
            f"{output} was not written: a quantized file is judged by its float32 file, of 2 GB at most; this one has "
            f"{size / 1e9:.3g} GB\n  what to do: --no-check writes it without judging it"
        )


def _quantize(folder: Path, calibrate: str | None, bits: int) -> Calibration | None:
    """Quantize the float32 file in the folder."""
    from ..inputs.onnx_inputs import read_declared_inputs
    from ..jobs.deployment.calibration import read_calibration
    from ..jobs.deployment.quantizing import quantize, quantize_blocks

    with ProgressDisplay() as progress:
        calibration = None
        if calibrate is not None:
            progress.stage("calibrate", None)
            calibration = read_calibration(calibrate, read_declared_inputs(str(folder / FLOAT)).values)
        progress.stage("quantize", None)
        if bits == 4:
            quantize_blocks(folder / FLOAT, folder / QUANTIZED)
        else:
            quantize(folder / FLOAT, folder / QUANTIZED, calibration)
    return calibration


def _judge(folder: Path, request: Export, calibration: Calibration | None, costs: QuantizationCosts | None) -> Report:
    """Judge the quantized file by the float32 file, print the report, and exit if it fails."""
    import numpy as np

    from ..checking.onnx_files.compare import compare_onnx

    page = None if request.reports.html is None else str(Path(request.reports.html).absolute())
    with contextlib.chdir(folder), ProgressDisplay() as progress:  # the report has the names of the files alone
        if calibration is not None:
            np.savez(SAMPLE, allow_pickle=False, **calibration[0])
        inputs = None if calibration is None else SAMPLE
        report = compare_onnx(
            FLOAT, QUANTIZED, inputs=inputs, progress=progress, seed=request.inputs.seed,
            grads=not request.checking.no_grad,
        )  # fmt: skip
    report.quantization = costs
    if report.failed:
        require_parity(report, request.reports.verbose, request.target.path, page)
    if page is not None:
        report.write_html(page)
    print_report(report, request.reports.verbose)
    return report


def _write(folder: Path, output: str, *, check: bool) -> None:
    """Move the quantized file to its place."""
    from ...runtime.lowering.external_data import model_size, move_model

    before, after = (model_size(folder / name) for name in (FLOAT, QUANTIZED))
    with files.atomic_model_path(output) as target:
        move_model(folder / QUANTIZED, target)
        echo("")
        print_fallback(target)
    sizes = f"{after / 1e6:.3g} MB, {after / before:.0%} of the {before / 1e6:.3g} MB in float32"
    echo(f"wrote {output}, {sizes}" + ("" if check else ", unchecked"))


def _write_bundle(
    folder: Path, output: str, samples: Calibration, report: Report, bits: int, *, calibrated: bool
) -> None:
    """Write a new folder with the quantized file and what proves that it is still the same."""
    from ...runtime.lowering.external_data import move_model

    origin = f"on {len(samples)} samples of calibration data" if calibrated else "on the inputs of the model file"
    echo("")
    with files.new_folder(output) as inside:
        move_model(folder / QUANTIZED, inside / "model.onnx")
        add_quantized_vectors(inside, folder / FLOAT, samples, report, bits, origin)
    echo(f"wrote {output}; to see whether the model is the same somewhere: python {Path(output) / 'verify.py'}")
