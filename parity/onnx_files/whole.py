"""ONNX files of which one can't be read as a program, compared as a whole: by what ONNX Runtime makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...runtime.compiled.session import SessionError
from ..comparison.trial import judged
from ..inputs.onnx_inputs import Declared, more_samples
from ..inputs.onnx_optionals import first_line, join
from ..inputs.onnx_reading import OnnxFile, in_order_of, returning, suited
from ..inputs.sizes import described
from ..options import Options
from ..report.report import Report
from ..sides.interpreter_side import InterpreterSide
from ..sides.names import ONNXRUNTIME
from ..sides.onnx_reference import OnnxReferenceSide
from ..sides.onnxruntime_side import OnnxModelSide, output_names
from ..sides.records import Array, Side
from ..support.progress import Progress

NOT_OPTIMIZED = "onnxruntime without optimizations"


MORE = 65  # samples, besides the few that inputs are generated with: of many branches each takes one
MAX_ELEMENTS = 2**22  # elements of an input with so many samples


def whole(
    first: OnnxFile, second: OnnxFile, ours: Declared, theirs: Declared, arrays: list[Array], options: Options,
    shown: Progress, *, generated: bool,
) -> Report:  # fmt: skip
    """Two files, one of which can't be read as a program, compared by what ONNX Runtime makes of them.

    Where the inputs are `generated`, and the file takes any number of samples, more of them are compared too.
    """
    unread = first if first.program is None else second
    assert unread.error is not None, "it can be read"
    _, dtype, notes = suited(options, first.program or second.program, ours.values)
    options = replace(options, grads=False, dtype=dtype)
    alone = first is second
    how: dict[str, Any] = {"dtype": dtype, "provider": options.provider}

    def believed(arrays: list[Array]) -> Side:
        if first.program is None:
            name = NOT_OPTIMIZED if alone else first.path
            return OnnxReferenceSide(name, first.path, ours.arguments(arrays), {}, optimized=not alone, **how)
        names = output_names(first.path)
        named = len(set(names)) == len(first.program.outputs)
        program = returning(first.program, names) if named else first.program
        return InterpreterSide(first.path, program, tuple(arrays), {}, working_dtype=dtype, seed=options.seed)

    def compared(reference: Side, arrays: list[Array]) -> Report:
        others = theirs.arguments(in_order_of(theirs.values, ours.values, arrays))
        name = ONNXRUNTIME if alone else f"{second.path} in onnxruntime"
        return judged(reference, [OnnxModelSide(name, second.path, others, {}, **how)], options, shown)

    try:
        report = compared(believed(arrays), arrays)
    except SessionError as error:
        raise unread.error from error
    more = more_samples(ours, arrays, MORE, MAX_ELEMENTS, options.seed)
    if generated and first.program is None and more is not None:
        sizes, many = more
        label = described(sizes)
        try:
            reference = believed(many)
        except SessionError as error:
            report.notes.append(f"not compared at {label}: {first_line(error)}")
        else:
            join(report, lambda: compared(reference, many), label, first.path, second.path)
    reason = f"Cells unknown: {unread.unknown}; the model was compared as a whole, its outputs in ONNX Runtime"
    rounding = "by rounding only: there is no float64 truth" if first.program is None else "by rounding only"
    report.notes += [*notes, f"{reason}, {rounding}"]
    return report
