"""The page of a comparison of training runs: a chart for each quantity, and a row for each tensor."""

from __future__ import annotations

from collections.abc import Iterable

from ...results.comparison import FAIL, PASS, Comparison
from ...results.training_result import KINDS, TrainingResult
from ..globs import join_names, list_names
from ..layout import from_here
from ..multiples import legend
from ..training import REFERENCE, SEVERAL, headline_in_words
from .page import Chart, Column, Curve, Fault, Page, Row, fraction_of_bar, thin_out

SINGLE = ("loss", "overflow")
"""Kinds with one number for each step."""


def training_page(report: TrainingResult) -> Page:
    """Return what the page shows of a report on training runs."""
    columns = [Column(side, "worst step", KINDS) for side in report.sides]
    charts = [*_loss_chart(report), *(chart for kind in KINDS for chart in _error_chart(report, kind))]
    rows = _rows(report, columns)
    thin_out(rows)
    return Page(
        model=report.model,
        outcome="holds" if report.ok else "fails",
        verdict=headline_in_words(report),
        facts=_facts(report),
        notes=[*dict.fromkeys(report.problems), *report.notes],
        reference=REFERENCE,
        tolerance=report.conditions.tolerance,
        legend=legend(report.comparisons, REFERENCE, report.conditions.tolerance),
        noun=("tensor", "tensors"),
        columns=columns,
        rows=rows,
        faults=_faults(report),
        charts=charts,
    )


def _facts(report: TrainingResult) -> list[tuple[str, str]]:
    facts = [
        ("Model", report.model),
        ("Sides", f"{join_names(report.sides)} against {REFERENCE}"),
        ("dtype", report.dtype),
        ("Mode", "train"),
        ("Steps", str(report.steps)),
    ]
    if report.recipe:
        facts.append(("Recipe", report.recipe))
    if report.differing is not None:
        kind = SEVERAL[report.first[0].kind]
        facts.append(("Differs", f"from step {report.differing} on, first in the {kind}"))
    return facts + report.origin.facts


def _rows(report: TrainingResult, columns: list[Column]) -> list[Row]:
    """Return a row for each kind of tensor, with rows for the tensors inside."""
    by_kind: dict[str, dict[str, list[Comparison]]] = {}
    for c in report.comparisons:
        by_kind.setdefault(c.kind, {}).setdefault(c.tensor, []).append(c)
    rows: list[Row] = []
    for kind in [kind for kind in KINDS if kind in by_kind]:
        tensors = by_kind[kind]
        parent = len(rows)
        of_kind = [c for comparisons in tensors.values() for c in comparisons]
        if kind in SINGLE:
            rows.append(_row(SEVERAL[kind], SEVERAL[kind], None, of_kind, columns))
            continue
        rows.append(_row(SEVERAL[kind], SEVERAL[kind], None, of_kind, columns))
        rows[-1].comparisons = []
        rows += [_row(_path(kind, name), name, parent, comparisons, columns) for name, comparisons in tensors.items()]
    return rows


def _row(path: str, label: str, parent: int | None, comparisons: list[Comparison], columns: list[Column]) -> Row:
    failed = any(c.status != PASS for c in comparisons)
    values = [column.worst(comparisons) for column in columns]
    ordered = sorted(comparisons, key=lambda c: (c.call, c.side, c.check))
    words = [column.words(comparisons) for column in columns]
    return Row(path, label, parent, FAIL if failed else PASS, values=values, words=words, comparisons=ordered)


def _path(kind: str, tensor: str) -> str:
    return SEVERAL[kind] if kind in SINGLE else f"{SEVERAL[kind]}/{tensor}"


def _faults(report: TrainingResult) -> list[Fault]:
    """Return the first differences of each side."""
    faults = []
    explanations = [] if report.causes else list(dict.fromkeys(report.explanations))
    for side in report.sides:
        first = report.first_of(side)
        if not first:
            continue
        worst = max(first, key=lambda c: c.severity)
        others = [name for name in dict.fromkeys(c.tensor for c in first) if name != worst.tensor]
        check = worst.check + (" in float64" if worst.check == "meaning" else "")
        faults.append(
            Fault(
                path=_path(worst.kind, worst.tensor),
                class_name="",
                summary=f"{side}, {check}: {worst.reason}, from step {worst.call} on, first in the "
                f"{SEVERAL[worst.kind]}",
                alike=f"others that differ: {list_names(others)}" if others else "",
                causes=report.causes,
                explanations=explanations,
                source=from_here(worst.source),
            )
        )
    return faults


def _loss_chart(report: TrainingResult) -> Iterable[Chart]:
    """Yield the chart of the losses themselves, if there are any."""
    losses = [c for c in report.comparisons if c.kind == "loss"]
    working = [c for c in losses if c.check == "rounding"] or losses
    if not working:
        return
    steps = range(1, report.steps + 1)
    reference = {c.call: c.reference_value for c in working}
    curves = [Curve(REFERENCE, [reference.get(step) for step in steps])]
    for side in report.sides:
        values = {c.call: c.candidate_value for c in working if c.side == side}
        if values:
            curves.append(Curve(side, [values.get(step) for step in steps]))
    if any(value is not None for curve in curves for value in curve.values):
        yield Chart("loss", curves, in_bars=False, differing=_first_failure(losses))


def _error_chart(report: TrainingResult, kind: str) -> Iterable[Chart]:
    """Yield the chart of the largest error of a kind of tensor after each step, if the kind was compared."""
    of_kind = [c for c in report.comparisons if c.kind == kind]
    if not of_kind:
        return
    curves = []
    for side in report.sides:
        worst: dict[int, float] = {}
        for c in of_kind:
            fraction = fraction_of_bar(c)
            if c.side == side and fraction is not None:
                worst[c.call] = max(worst.get(c.call, 0.0), fraction)
        if worst:
            curves.append(Curve(side, [worst.get(step) for step in range(1, report.steps + 1)]))
    yield Chart(f"error of the {SEVERAL[kind]}", curves, in_bars=True, differing=_first_failure(of_kind))


def _first_failure(comparisons: list[Comparison]) -> int | None:
    """Return the first step that differs in these comparisons; None if nothing does."""
    return min((c.call for c in comparisons if c.status != PASS), default=None)
