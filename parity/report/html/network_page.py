"""The page of a comparison of networks: a row for each Cell."""

from __future__ import annotations

import math
from dataclasses import replace

from ...results.cell_report import CellReport
from ...results.comparison import PASS
from ...results.hunk import NOWHERE, Hunk
from ...results.network_result import NetworkResult
from ..detail import (
    amount,
    check_in_words,
    group_by_fault,
    importance,
    same_in_words,
    side_that_differs,
    tensor_in_words,
)
from ..globs import join_names
from ..hunks import pair_in_words
from ..layout import from_here
from ..network import counts_in_words, legend_of, remarks, verdict_in_words
from ..tree import Branch, forest
from .costs import costs_table
from .page import Column, Fault, Page, Row, thin_out
from .pairing import pairing_table
from .shares import shares_table
from .side_by_side import HunkView, hunk_view

FAULTS = 40  # findings that are listed at the top
COLUMNS = {
    "outputs": ("output", "passed value", "call", "quantizer", "quantization error"),
    "input gradients": ("input gradient", "passed gradient"),
    "parameter gradients": ("parameter gradient",),
    "parameters": ("parameter",),
    "buffers": ("buffer update",),
}
"""The columns of each side, and the kinds of tensors in each."""


def network_page(report: NetworkResult) -> Page:
    """Return what the page shows of a report on networks."""
    compared = {(c.side, c.kind) for cell in report.cells.values() for c in cell.comparisons}
    failing = {c.side for path in report.failing for c in report.cells[path].failures}
    columns = [
        Column(side, name, kinds)
        for side in sorted(report.sides, key=lambda side: side not in failing)  # beside an open Cell, few columns fit
        for name, kinds in COLUMNS.items()
        if any((side, kind) in compared for kind in kinds)
    ]
    rows = _rows(report, columns)
    thin_out(rows)
    faults = _faults(report)
    return Page(
        model=report.model,
        outcome="holds" if report.ok else "fails" if report.failed else "unclear",
        verdict=verdict_in_words(report),
        facts=_facts(report),
        notes=[*remarks(report), *report.notes],
        reference=report.reference,
        tolerance=report.conditions.tolerance,
        legend=legend_of(report),
        noun=("Cell", "Cells"),
        columns=columns,
        rows=rows,
        faults=faults[:FAULTS],
        more_faults=len(faults) - len(faults[:FAULTS]),
        in_order=all(cell.entry is not None for cell in report.cells.values() if cell.calls),
        travel={shares.side: shares.end_to_end for shares in report.error_shares if len(shares.end_to_end) > 2},
        shares=[shares_table(shares, list(report.cells)) for shares in report.error_shares],
        pairing=pairing_table(report),
        costs=None if report.quantization is None else costs_table(report.quantization, report.cells),
    )


def _facts(report: NetworkResult) -> list[tuple[str, str]]:
    compared = "outputs and gradients" if any(cell.gradients for cell in report.cells.values()) else "outputs"
    reference = report.origin.reference
    facts = [
        *([("Reference", reference), ("Candidate", report.model)] if reference else [("Model", report.model)]),
        ("Sides", f"{join_names(report.sides)} against {report.reference}"),
        ("Compared", compared),
        ("dtype", report.dtype),
        ("Mode", "train" if report.train else "eval"),
        ("Seed", str(report.seed)),
        ("Cells", counts_in_words(report)),
        ("The network as a whole", report.network_verdict.sentence),
    ]
    if report.inputs > 1:
        worst = report.worst
        facts.append(("Inputs", f"{report.inputs}" + (f"; the worst is number {worst[1].input}" if worst else "")))
    if report.sizes:
        facts.append(("Other sizes", "; ".join(report.sizes)))
    return facts + report.origin.facts


def _rows(report: NetworkResult, columns: list[Column]) -> list[Row]:
    verdict = report.verdicts
    rows: list[Row] = []
    cells = report.cells
    if report.nothing_in_common:
        cells = {path: cell for path, cell in cells.items() if cell.comparisons}
    waiting: list[tuple[Branch, int | None]] = [(branch, None) for branch in reversed(_in_order(forest(cells), report))]
    while waiting:
        branch, parent = waiting.pop()
        cell = report.cells[branch.path]
        number = len(rows)
        rows.append(
            Row(
                path=branch.path or "(root)",
                label=branch.label,
                parent=parent,
                verdict=verdict[branch.path],
                class_name=cell.class_name,
                port=_partner(cell, report),
                calls=cell.calls,
                values=[column.worst(cell.comparisons) for column in columns],
                words=[column.words(cell.comparisons) for column in columns],
                causes=cell.causes,
                explanations=cell.explanations,
                wrong_side=cell.wrong_side_in_words,
                graph=cell.graph,
                lines=_lines(cell.hunk, cell, report),
                lines_of_causes=[_lines(cause.hunk, cell, report) for cause in cell.causes],
                comparisons=sorted(
                    cell.comparisons,
                    key=lambda c: (c.status == PASS, *importance(c, report), *(-value for value in c.severity)),
                ),
            )
        )
        waiting += [(child, number) for child in reversed(_in_order(branch.children, report))]
    return rows


def _in_order(branches: list[Branch], report: NetworkResult) -> list[Branch]:
    """Return branches in the order of their first calls; those of which it isn't known come last, as they are."""

    def entry(branch: Branch) -> float:
        known = [entry for path in branch.inside() if (entry := report.cells[path].entry) is not None]
        return min(known, default=math.inf)

    return sorted(branches, key=entry)


def _partner(cell: CellReport, report: NetworkResult) -> str:
    """Return what a Cell is ported as, or paired with, in words."""
    if cell.counterpart:
        return f"ported as {cell.counterpart}"
    pair = report.correspondence.pair_of(cell.path)
    return f"paired with {pair_in_words(pair)}" if pair is not None and pair.is_by_values else ""


def _faults(report: NetworkResult) -> list[Fault]:
    """Return a finding for each fault, those with proved causes first."""
    failing = {*report.failing, *report.reference_wrong}
    groups = group_by_fault(report, [cell for path, cell in report.cells.items() if path in failing])
    return sorted((_fault(group, report) for group in groups), key=lambda fault: not fault.causes)


def _fault(group: list[CellReport], report: NetworkResult) -> Fault:
    first, *others = group
    worst = min(first.differences, key=lambda c: importance(c, report))
    alike = ""
    if others:
        alike = f"{same_in_words([cell.path for cell in group], report)}; this one has the largest error"
    how_much = amount(worst, report)
    reason = f"{worst.reason} ({how_much})" if worst.reason and worst.index is not None else worst.reason
    return Fault(
        path=first.path or "(root)",
        class_name=first.class_name,
        summary=f"{tensor_in_words(worst, first)}, {check_in_words(worst)}: {reason or how_much}",
        alike=alike,
        causes=[replace(cause, source=from_here(cause.source)) for cause in first.causes],
        explanations=[] if first.causes else first.explanations,
        source=from_here(worst.source),
        wrong_side=first.wrong_side_in_words,
        pair=_partner(first, report),
        hunks=_hunks(first, report),
    )


def _lines(hunk: Hunk, cell: CellReport, report: NetworkResult) -> HunkView | None:
    return hunk_view(hunk, _sides(cell, report), of_cause=True) if cell.differences else None


def _sides(cell: CellReport, report: NetworkResult) -> tuple[str, str]:
    """Return the names of the reference and of the side that differs."""
    return report.reference, side_that_differs(cell, report)


def _hunks(cell: CellReport, report: NetworkResult) -> list[HunkView | None]:
    """Return the lines of both sides for each cause, or of a Cell without causes."""
    sides = _sides(cell, report)
    if not cell.causes:
        return [hunk_view(cell.hunk, sides, of_cause=False)]
    before = [NOWHERE, *(cause.hunk for cause in cell.causes)]
    return [
        None if cause.hunk == last else hunk_view(cause.hunk, sides, of_cause=True)
        for cause, last in zip(cell.causes, before, strict=False)
    ]
