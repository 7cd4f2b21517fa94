"""Comparisons at other sizes than those of the inputs, added to the report on these."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.errors import CellbridgeError, UsageError
from ..report.report import Report
from ..results.comparison import FAIL, Comparison
from ..support.messages import first_line

Runs = tuple[Callable[[], object], Callable[[], object]] | tuple[()]


def add_refusal(report: Report, candidate: str, reason: str, label: str = "") -> None:
    """Add a failure of the candidate to take an input; `label`: its sizes, if they aren't the given ones."""
    report.sizes += [label] if label else []
    failure = Comparison(candidate, "meaning", "end to end", "call", "", 0, FAIL, reason, sizes=label)
    report.cells[""].comparisons.append(failure)


def judge_at(
    report: Report, label: str, judge: Callable[[], Report], runs: Runs = (), names: tuple[str, str] = ("", "")
) -> None:
    """Add the report at other sizes, or a note if these can't be compared.

    Where the reference runs and the candidate doesn't, that is a failure.

    Args:
        report: the report on the given sizes.
        label: the other sizes.
        judge: returns the report at these.
        runs: what runs the reference and the candidate there; none if it is known that they run.
        names: what both are called.
    """
    for run, is_reference in zip(runs, (True, False), strict=False):
        try:
            run()
        except CellbridgeError as error:
            if is_reference:
                report.notes.append(f"not compared at {label}: {first_line(error)}")
            else:
                add_refusal(report, names[1], f"doesn't run where {names[0]} does: {first_line(error)}", label)
            return
    try:
        report.join_sizes(judge(), label)
    except UsageError as error:  # for example, results that are empty or not finite
        report.notes.append(f"not compared at {label}: {first_line(error)}")


def judge_where_reference_runs(report: Report, label: str, judge: Callable[[], Report], names: tuple[str, str]) -> None:
    """Add the report at other sizes, at which the reference runs; or a failure of the candidate if `judge` raises."""
    try:
        report.join_sizes(judge(), label)
    except CellbridgeError as error:
        add_refusal(report, names[1], f"doesn't run where {names[0]} does: {first_line(error)}", label)
