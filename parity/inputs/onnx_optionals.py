"""ONNX files with optional inputs, judged without each of them too."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...converter.onnx_in.inputs import Shapes
from ...runtime.compiled.isolated import IsolatedSession
from ...runtime.errors import CellbridgeError
from ..report.report import Report
from ..results.comparison import FAIL, Comparison
from .onnx_inputs import Declared, declared_inputs, feed, runnable


def judge_without_optionals(
    report: Report,
    reference: str,
    candidate: str,
    declared: Declared,
    shapes: Shapes,
    judge: Callable[[Shapes], Report],
) -> None:
    """Judge without each optional that was given, one at a time, where the reference runs so; add that to the report.

    Args:
        report: of the file with these optionals.
        reference: the file that is believed.
        candidate: the other one.
        declared: the inputs of the reference.
        shapes: that were asked for.
        judge: makes the report for other shapes.
    """
    for name, one in declared.inputs.items():
        if not one.is_optional or one.tensors is None or name in shapes:
            continue
        others = {key: shape for key, shape in shapes.items() if key not in one.tensors}
        left_out, label = {**others, name: None}, f"{name}=none"
        try:
            without = declared_inputs(reference, left_out)
            arrays = next(runnable(reference, without, None, 0))
            IsolatedSession(reference).run(feed(without, arrays))
        except CellbridgeError as error:
            report.notes.append(f"not compared at {label}, where {reference} doesn't run: {first_line(error)}")
            continue
        join(report, functools.partial(judge, left_out), label, reference, candidate)


def join(report: Report, judge: Callable[[], Report], label: str, reference: str, candidate: str) -> None:
    """Add to the report what `judge` finds on inputs of other sizes, which the reference runs on; or that it fails."""
    try:
        report.join_sizes(judge(), label)
    except CellbridgeError as error:
        reason = f"doesn't run where {reference} does: {first_line(error)}"
        failed = Comparison(candidate, "meaning", "end to end", "call", "", 0, FAIL, reason, sizes=label)
        report.sizes.append(label)
        report.cells[""].comparisons.append(failed)


def first_line(error: Exception) -> str:
    """What an error says first."""
    return str(error).partition("\n")[0]
