"""The view for pytest: the outcome of each Cell on each side, with the reason, as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..results.cell_report import CellReport
from ..results.comparison import AFFECTED, FAIL, INLINED, NOT_KNOWN, NOT_REACHED, PASS, PASSED_ON, SKIPPED, UNPAIRED
from ..results.network_result import NetworkResult
from .cases import reference_wrong
from .detail import cell_detail

WIDTH = 80

Outcome = tuple[str, str]
"""PASS, FAIL or SKIPPED, and the reason in words."""


def outcomes(
    report: NetworkResult, items: Iterable[tuple[str, str]], min_coverage: float = 0.0
) -> dict[tuple[str, str], Outcome]:
    """Return the outcome of each item, a pair of a Cell's path and a side.

    A Cell also fails if no input reaches it, or if nothing of it was compared. An end-to-end failure that another Cell
    explains doesn't count. The root also fails if gradients of too few parameters were compared.

    Args:
        report: the report.
        items: paths of Cells and names of sides.
        min_coverage: the least share of the reference's parameters.
    """
    by_item = {(path, side): _outcome(report, report.cells.get(path), path, side) for path, side in items}
    for side, coverage in report.coverage.items():
        setting = f"parity_min_coverage={min_coverage:g}, a setting of pytest"
        if by_item.get(("", side), (FAIL, ""))[0] == PASS and (problem := coverage.shortfall(min_coverage, setting)):
            by_item["", side] = FAIL, problem
    return by_item


def _outcome(report: NetworkResult, cell: CellReport | None, path: str, side: str) -> Outcome:
    notes = "".join(f"\n  note: {note}" for note in report.notes)
    uncompared = f"nothing of the Cell {path or '(root)'} was compared on the {side} side{notes}"
    if cell is None:
        return FAIL, uncompared
    if cell.presence == NOT_REACHED:
        return FAIL, (
            f"the inputs never exercise the Cell {path} ({cell.class_name}): nothing is known about it\n"
            "  what to do: give inputs that reach it, or remove it from the model"
        )
    if cell.presence == INLINED:
        return SKIPPED, "never called itself: its parameters are judged in the Cell that uses them"
    if cell.presence == PASSED_ON:
        return PASS, ""
    comparisons = [comparison for comparison in cell.comparisons if comparison.side == side]
    if path == "" and report.not_known and not report.failed:
        return FAIL, f"parity is not known: {report.not_known}{notes}"
    paired = {pair.module for pair in report.correspondence.cells if pair.cell_class and not pair.apart}
    if not comparisons and report.correspondence.cells and side == report.sides[-1] and path not in paired:
        return SKIPPED, "it has no counterpart, or one that is called differently: judged in the Cell around it"
    if not comparisons and cell.presence == UNPAIRED:
        return SKIPPED, "it has no counterpart: judged in the Cell around it"
    if not comparisons:
        return FAIL, uncompared
    judged = replace(cell, comparisons=comparisons)
    if not judged.differences or (judged.failures and report.verdicts[path] == AFFECTED):
        return PASS, ""
    if not judged.failures and judged.status == NOT_KNOWN:
        return SKIPPED, "\n".join(line.plain for line in cell_detail(judged, report, WIDTH))
    if not judged.failures:
        return SKIPPED, reference_wrong(judged, report)
    if path == "" and report.nothing_in_common:
        return FAIL, report.nothing_in_common
    return FAIL, "\n".join(line.plain for line in cell_detail(judged, report, WIDTH))
