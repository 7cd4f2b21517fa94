"""ONNX files, one of which can't be read as a program, compared as a whole in ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....runtime.compiled.session import SessionError
from ...inputs.onnx_inputs import DeclaredInputs, more_samples
from ...inputs.onnx_reading import OnnxFile, adapt_options, reorder, with_named_outputs
from ...inputs.sizes import format_sizes
from ...judging.judging import judge_sides
from ...options import Options
from ...report.report import Report
from ...sides.interpreter_side import InterpreterSide
from ...sides.names import ONNXRUNTIME
from ...sides.onnx_models import output_names
from ...sides.onnx_reference import OnnxReferenceSide
from ...sides.onnxruntime_side import OnnxModelSide
from ...sides.records import Array
from ...sides.side import Side
from ...support.messages import first_line
from ...support.progress import Progress
from ..other_sizes import judge_where_reference_runs

NOT_OPTIMIZED = "onnxruntime without optimizations"


MORE = 65  # samples in an additional comparison, so that each of many branches is taken
MAX_ELEMENTS = 2**22  # of an input with that many samples


def compare_whole(
    first: OnnxFile, second: OnnxFile, first_inputs: DeclaredInputs, second_inputs: DeclaredInputs, arrays: list[Array],
    options: Options, progress: Progress, *, generated: bool,
) -> Report:  # fmt: skip
    """Compare two files, one of which can't be read as a program, in ONNX Runtime.

    If the inputs are `generated` and the file takes any number of samples, more samples are compared too.
    """
    unread = first if first.program is None else second
    assert unread.error is not None, "it can be read"
    _, dtype, notes = adapt_options(options, first.program or second.program, first_inputs.values)
    options = replace(options, grads=False, dtype=dtype)
    alone = first is second
    how: dict[str, Any] = {"dtype": dtype, "provider": options.provider}

    def reference_side(arrays: list[Array]) -> Side:
        if first.program is None:
            name = NOT_OPTIMIZED if alone else first.path
            return OnnxReferenceSide(name, first.source, first_inputs.arguments(arrays), {}, optimized=not alone, **how)
        names = output_names(first.path)
        named = len(set(names)) == len(first.program.outputs)
        program = with_named_outputs(first.program, names) if named else first.program
        return InterpreterSide(first.path, program, tuple(arrays), {}, working_dtype=dtype, seed=options.seed)

    def compare(reference: Side, arrays: list[Array]) -> Report:
        others = second_inputs.arguments(reorder(second_inputs.values, first_inputs.values, arrays))
        name = ONNXRUNTIME if alone else f"{second.path} in onnxruntime"
        return judge_sides(reference, [OnnxModelSide(name, second.source, others, {}, **how)], options, progress)

    try:
        report = compare(reference_side(arrays), arrays)
    except SessionError as error:
        raise unread.error from error
    more = more_samples(first_inputs, arrays, MORE, MAX_ELEMENTS, options.seed)
    if generated and first.program is None and more is not None:
        sizes, many = more
        label = format_sizes(sizes)
        try:
            reference = reference_side(many)
        except SessionError as error:
            report.notes.append(f"not compared at {label}: {first_line(error)}")
        else:
            judge_where_reference_runs(report, label, lambda: compare(reference, many), (first.path, second.path))
    reason = f"Cells unknown: {unread.unknown}; the model was compared as a whole, its outputs in ONNX Runtime"
    rounding = "by rounding only: there is no float64 truth" if first.program is None else "by rounding only"
    report.notes += [*notes, f"{reason}, {rounding}"]
    return report
