"""ONNX files of which one can't be read as a program, compared as a whole: by what ONNX Runtime makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..runtime.compiled.session import SessionError
from .onnx_inputs import Declared
from .onnx_reading import OnnxFile, in_order_of, returning, suited
from .options import Options
from .progress import Progress
from .results import Report
from .sides.interpreter_side import InterpreterSide
from .sides.onnx_reference import OnnxReferenceSide
from .sides.onnxruntime_side import OnnxModelSide, output_names
from .sides.records import Array, Side
from .trial import judged

NOT_OPTIMIZED = "onnxruntime without optimizations"


def whole(
    first: OnnxFile, second: OnnxFile, ours: Declared, theirs: Declared, arrays: list[Array], options: Options,
    shown: Progress,
) -> Report:  # fmt: skip
    """Two files, one of which can't be read as a program, compared by what ONNX Runtime makes of them."""
    unread = first if first.program is None else second
    assert unread.error is not None, "it can be read"
    _, dtype, notes = suited(options, first.program or second.program, ours.values)
    options = replace(options, grads=False, dtype=dtype)
    alone = first is second
    how: dict[str, Any] = {"dtype": dtype, "provider": options.provider}
    others = theirs.arguments(in_order_of(theirs.values, ours.values, arrays))
    try:
        reference: Side
        if first.program is None:
            name = NOT_OPTIMIZED if alone else first.path
            reference = OnnxReferenceSide(name, first.path, ours.arguments(arrays), {}, optimized=not alone, **how)
        else:
            names = output_names(first.path)
            named = len(set(names)) == len(first.program.outputs)
            believed = returning(first.program, names) if named else first.program
            reference = InterpreterSide(first.path, believed, tuple(arrays), {}, working_dtype=dtype, seed=options.seed)
        name = "onnxruntime" if alone else f"{second.path} in onnxruntime"
        report = judged(reference, [OnnxModelSide(name, second.path, others, {}, **how)], options, shown)
    except SessionError as error:
        raise unread.error from error
    reason = f"Cells unknown: {unread.unknown}; the model was compared as a whole, its outputs in ONNX Runtime"
    rounding = "by rounding only: there is no float64 truth" if first.program is None else "by rounding only"
    report.notes += [*notes, f"{reason}, {rounding}"]
    return report
