"""One ONNX file on several sides: the interpreter, torch, and ONNX Runtime."""

from __future__ import annotations

from typing import Unpack

from onnx import ModelProto

from ....converter.exclusive import one_at_a_time
from ....converter.onnx_in.inputs import Shapes
from ....converter.torch_out.export import to_torch
from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import BFLOAT16, is_floating
from ...inputs.affordable import require_affordable
from ...inputs.onnx_draws import share_draws
from ...inputs.onnx_inputs import DeclaredInputs, generate, read_declared_inputs
from ...inputs.onnx_reading import adapt_options, read_with_inputs, require_eval
from ...judging.judging import judge_sides
from ...options import OptionKeywords, Options, from_keywords
from ...report.report import Report
from ...sides.interpreter_side import InterpreterSide
from ...sides.names import INTERPRETER, ONNXRUNTIME
from ...sides.onnxruntime_side import OnnxModelSide
from ...sides.precision import KEEPING_DTYPES
from ...sides.side import Side
from ...sides.torch_side import TorchSide
from ...support.progress import NoProgress, Progress
from ...support.tensors import as_tensors
from .optionals import judge_without_optionals
from .rejected import explain_rejected
from .whole import compare_whole

_ONLY_STORED = ("uint16", "uint32", "uint64")
"""Dtypes whose tensors torch stores and casts, and hardly computes with."""


@one_at_a_time
def check_onnx(
    path: str,
    *,
    inputs: str | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Compare an ONNX file, read as a program, in the interpreter, in torch and in ONNX Runtime.

    Args:
        path: the file.
        inputs: an .npz file of arrays by input name; generated from the declared types if not given.
        shapes: shapes of generated inputs by name; others are chosen.
        progress: receives the stages of the run.
        **options: fields of `Options`.

    Returns:
        The report. The program as a torch module is the reference; the interpreter is compared with it Cell by Cell,
        with gradients. ONNX Runtime runs the file itself, and is compared at its outputs. A file that can't be read as
        a program is compared as a whole: ONNX Runtime with and without its optimizations. Where the file draws random
        numbers, all sides are given the same ones.

    Raises:
        UsageError: the file or the inputs can't be read or don't fit, or an option is wrong.
        ConversionError: the model is malformed.
    """
    chosen, progress = from_keywords(Options, check_onnx, options), progress or NoProgress()
    require_eval(chosen)
    with explain_rejected(path):
        progress.stage("read", None)
        declared = read_declared_inputs(path, shapes, inputs)
        (draws,) = share_draws(path)
        report = _check(path, draws.model, declared, inputs, chosen, progress)
        if inputs is None:
            judge_without_optionals(
                report, path, path, declared, shapes or {},
                lambda left_out: _check(
                    path, draws.model, read_declared_inputs(path, left_out), None, chosen, progress
                ),
            )  # fmt: skip
        report.notes += draws.notes
    return report


def _check(
    path: str, without_draws: ModelProto | None, declared: DeclaredInputs, inputs: str | None, chosen: Options,
    progress: Progress,
) -> Report:  # fmt: skip
    """Compare the sides of a file on inputs of one structure."""
    file, arrays = read_with_inputs(path, declared, inputs, chosen.seed, without_draws)
    if file.program is None:
        return compare_whole(file, file, declared, declared, arrays, chosen, progress, generated=inputs is None)
    if inputs is None:
        arrays = generate(file.program.inputs, chosen.seed, {}, file.program)
    chosen, runtime_dtype, notes = adapt_options(chosen, file.program)
    args = tuple(arrays)
    require_affordable(file.program, args, grads=chosen.grads)
    interpreter = InterpreterSide(
        INTERPRETER, file.program, args, {}, working_dtype=chosen.dtype, seed=chosen.seed, second_call=False
    )
    runtime = OnnxModelSide(
        ONNXRUNTIME, file.source, declared.arguments(args), {}, dtype=runtime_dtype, provider=chosen.provider
    )
    reference: Side = interpreter
    sides: list[Side] = [runtime]
    try:
        _require_dtypes_of_torch(file.program)
        module = to_torch(file.program)
        input_dtypes = {value.dtype.name for value in file.program.inputs if is_floating(value.dtype)}
        if input_dtypes == {chosen.dtype}:  # the file's own casts fit its own dtypes alone
            KEEPING_DTYPES.add(module)
        reference = TorchSide("torch", module, as_tensors(args), {}, working_dtype=chosen.dtype, seed=chosen.seed)
        sides = [interpreter, runtime]
    except ConversionError as error:
        notes.append(f"the interpreter is the reference, not torch: {error}".partition("\n")[0])
    report = judge_sides(reference, sides, chosen, progress)
    report.notes += [*notes, *file.notes]
    return report


def _require_dtypes_of_torch(program: Program) -> None:
    """Raise `ConversionError` for a dtype that torch doesn't compute with: float8, 4-bit integers, uint16, ..."""
    values = (
        *program.inputs,
        *program.constant_data,
        *(parameter.value for parameter in program.parameters.values()),
        *(value for node in program.nodes for value in node.outputs),
    )
    for value in values:
        if value.dtype.isbuiltin != 1 and value.dtype != BFLOAT16:
            raise ConversionError(f"it doesn't compute with {value.dtype.name}")
    for node in program.nodes:
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.dtype.name in _ONLY_STORED and node.op not in ("boundary", "cast"):
                raise ConversionError(f"it has few operators for {value.dtype.name}")
