"""The cause of a Cell that is less precise: values that the candidate alone rounds to another dtype."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...runtime.errors import CellbridgeError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, as_dtype, is_floating
from ..report.report import Report
from ..results.cause import Cause
from ..results.notes import warnings_as_notes
from ..sides.abilities import HasProgram
from ..sides.run import FORWARD, Run
from ..sides.side import Side


def add_precision_causes(report: Report, reference: Side, side: Side) -> None:
    """Name the casts to another dtype in Cells that agree in float64, where casts are left out, and not in the dtype.

    Args:
        report: the report, whose failing Cells get their `causes`.
        reference: the reference.
        side: the side that fails.
    """
    paths = [path for path in report.failing if _is_less_precise(report, path, side)]
    if not paths or not isinstance(reference, HasProgram) or not isinstance(side, HasProgram):
        return
    try:
        with warnings_as_notes():
            run = Run(report.dtype, FORWARD)
            reference_program, candidate_program = (s.in_interpreter(run).program for s in (reference, side))
    except CellbridgeError:  # one of them isn't known as a program
        return
    for path in paths:
        known = Counter(str(node.attributes["dtype"]) for node in _roundings(reference_program, path, report.dtype))
        for node in _roundings(candidate_program, path, report.dtype):
            dtype = str(node.attributes["dtype"])
            known[dtype] -= 1
            if known[dtype] < 0 and all(cause.candidate_value != dtype for cause in report.cells[path].causes):
                report.cells[path].causes.append(_cause(node, dtype, report.dtype))


def _is_less_precise(report: Report, path: str, side: Side) -> bool:
    """Whether a Cell by itself fails in this side, in the working dtype alone."""
    failures = [c for c in report.cells[path].failures if c.side == side.name]
    return all(c.check == "rounding" for c in failures) and any(c.feeding == "isolated" for c in failures)


def _roundings(program: Program, path: str, working_dtype: str) -> Iterator[Node]:
    """Yield the casts in a Cell's own code to a floating-point dtype with fewer digits."""
    most = as_dtype(working_dtype).itemsize
    for node in program.nodes:
        if node.op == "cast" and program.calls[node.cell].path == path:
            dtype = as_dtype(node.attributes["dtype"])
            if is_floating(dtype) and dtype.itemsize < most:
                yield node


def _cause(node: Node, dtype: str, working_dtype: str) -> Cause:
    return Cause(
        "precision",
        f"values are rounded to {dtype} in the candidate",
        f"compute in {working_dtype}",
        op="cast",
        attribute="dtype",
        reference_value=working_dtype,
        candidate_value=dtype,
        source=str(node.source) if node.source is not None else "",
    )
