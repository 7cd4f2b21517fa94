"""`parity export`."""

from __future__ import annotations

import click

from ..report.layout import echo
from ..sides.kinds import file_of
from ..support import files
from .arguments.export import Checking, Export, ExportedInputs, ExportReports, Precision, Target
from .arguments.groups import Memory
from .arguments.training import WrittenTraining
from .bundle_export import export_bundle, print_fallback, print_note
from .command import command
from .conversion import check_model_file, convert_model_file
from .outcome import require_outputs, require_parity
from .quantized_export import export_quantized
from .targets import require_file
from .training_export import export_training


@command("export")
@click.argument("model")
def export(
    model: str,
    target: Target,
    checking: Checking,
    precision: Precision,
    inputs: ExportedInputs,
    training: WrittenTraining,
    reports: ExportReports,
    limits: Memory,
) -> None:
    """Convert MODEL to ONNX, and write it if parity holds.

    MODEL is a model file, as for parity run. If parity fails, nothing is written.
    """
    require_outputs(
        {"--output": target.output, "--html": reports.html},
        {"MODEL": file_of(model), "--calibrate": precision.calibrate},
    )
    if precision.calibrate is not None:
        require_file(precision.calibrate)
    if target.opset is not None:
        _require_opset(target.opset, loadable=not checking.no_check)
    request = Export(model, target, checking, inputs, precision, training, reports, limits.memory)
    if training.training_step:
        export_training(request)
    elif precision.bits is not None:
        export_quantized(request, precision.bits)
    elif target.bundle is not None:
        export_bundle(request)
    else:
        _export_file(request)


def _require_opset(opset: int, *, loadable: bool) -> None:
    """Raise `UsageError` for an opset that can't be written, before the work starts."""
    from ...runtime.lowering import opsets

    opsets.choose(opset)
    if loadable:
        opsets.require_loadable(opset)


def _export_file(request: Export) -> None:
    """Write an ONNX file in floating point."""
    path = request.target.path
    with files.atomic_model_path(path) as onnx_path:
        if request.checking.no_check:
            _write_unchecked(request, str(onnx_path))
        else:
            report = check_model_file(
                request.model, request.reports.verbose, request.options, request.inputs.dynamic, request.memory,
                save_onnx=onnx_path, opset=request.target.opset, external_data=request.external_data,
            )  # fmt: skip
            require_parity(report, request.reports.verbose, path, request.reports.html)
        if request.memory is None:
            print_fallback(onnx_path)
    echo(f"wrote {path}" + (", unchecked" if request.checking.no_check else ""))


def _write_unchecked(request: Export, path: str) -> None:
    from ...converter import to_onnx
    from ...runtime.lowering import opsets
    from ..sides.runtime_program import own_working_dtype, written_program

    dtype = request.precision.dtype
    captured = convert_model_file(
        request.model, request.inputs.seed, request.reports.verbose, request.inputs.dynamic,
        None if dtype == "float32" else dtype,
    )  # fmt: skip
    program, notes = written_program(captured, own_working_dtype(captured))
    for note in notes:
        print_note(note)
    model_proto = to_onnx(program, path, opset=request.target.opset, external_data=request.external_data)
    echo(f"the ONNX model is of {opsets.describe(model_proto)}")
