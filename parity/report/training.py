"""The text view of a comparison of training runs."""

from __future__ import annotations

from rich.text import Text

from ..results.comparison import PASS, Comparison, times, worst_ratio
from ..results.training_result import KINDS, TrainingResult
from .detail import INDENT, cause_lines, digits_to_tell_apart, error_line, pluralize, value_lines
from .globs import join_names
from .layout import Piece, Row, paragraph, tree_lines
from .multiples import DOUBLE, legend, rounding_of

MAX_NAMES = 4  # names of a list that are shown
REFERENCE = "torch"
SEVERAL = {
    "loss": "loss",
    "gradient": "gradients",
    "overflow": "overflow decision",
    "clipped gradient": "clipped gradients",
    "optimizer state": "optimizer state",
    "loss scale": "loss scale",
    "parameter": "parameters",
    "buffer": "buffers",
}
"""The plural of each kind of tensor."""


def training_lines(report: TrainingResult, width: int) -> list[Text]:
    """Return the whole view."""
    lines = [*_table(report, width), Text()] if report.recipe and report.comparisons else []
    lines += _agreement(report, width) if report.ok else _differences(report, width)
    if report.recipe:
        subject = f"{report.model}: {join_names(report.sides)} against {REFERENCE}, {report.dtype}; {report.recipe}"
        lines += paragraph(subject, width, INDENT)
    return lines + [line for note in report.notes for line in paragraph(f"note: {note}", width, INDENT, "yellow")]


def _table(report: TrainingResult, width: int) -> list[Text]:
    """Return a table with a line for each kind of tensor and a column for each side."""
    rows = []
    for kind in KINDS:
        of_kind = [c for c in report.comparisons if c.kind == kind]
        if of_kind:
            count = str(len({c.tensor for c in of_kind}))
            columns = [_verdict([c for c in of_kind if c.side == side]) for side in report.sides]
            rows.append(Row((), ((SEVERAL[kind], ""), (count, "dim"), *columns)))
    lines = tree_lines((f"After {pluralize(report.steps, 'step')}", "tensors", *report.sides), rows, width, left=1)
    text = legend(report.comparisons, REFERENCE, report.conditions.tolerance)
    return [*lines, Text(), *paragraph(text, width, style="dim")]


def _verdict(comparisons: list[Comparison]) -> Piece:
    failed = [c for c in comparisons if c.status != PASS]
    if not comparisons:
        return "- not compared", "yellow"
    if not failed:
        most = worst_ratio(comparisons)
        return f"✓ {times(most)}" if most else "✓", "green"
    different = "≠ " if any(c.check == "meaning" for c in failed) else ""
    return f"✗ {different}{times(worst_ratio(failed))} from step {min(c.call for c in failed)}", "bold red"


def _agreement(report: TrainingResult, width: int) -> list[Text]:
    lines = paragraph(f"✓ {headline_in_words(report)}", width, style="bold green")
    for side, check in dict.fromkeys((c.side, c.check) for c in report.comparisons):
        worst = max((c for c in report.comparisons if (c.side, c.check) == (side, check)), key=lambda c: c.ratio)
        double = check == "meaning"
        unit = report.conditions.tolerance or (DOUBLE if double else rounding_of(REFERENCE))
        dtype = "float64" if double else "float32" if report.dtype == "float64" else report.dtype
        of_side = f"{side}, " if len(report.sides) > 1 else ""
        most = times(worst.ratio) if worst.ratio >= 1 else f"{worst.ratio:.1g}×"
        where = f"{_name(worst)}, step {worst.call}"
        lines += paragraph(f"{of_side}{check} in {dtype}: at most {most} {unit} ({where})", width, INDENT)
    return lines


def _differences(report: TrainingResult, width: int) -> list[Text]:
    at_first = [c for c in report.failures if c.call == report.differing]
    lines = paragraph(f"✗ {headline_in_words(report)}", width, style="bold red")
    if report.recipe and report.differing is not None:
        for side in report.sides:
            if not (first := report.first_of(side)):
                continue
            names = _list_names(list(dict.fromkeys(c.tensor for c in first)))
            where = f"from step {first[0].call} on, first in the {SEVERAL[first[0].kind]}"
            lines += paragraph(f"{side}: {where}: {names}", width, INDENT)
        at_first = report.first
    if not report.recipe:
        subject = f"{report.model}: {join_names(report.sides)} against {REFERENCE}, {pluralize(report.steps, 'step')}"
        lines += paragraph(f"{subject}, {report.dtype}", width, INDENT)
        lines += paragraph(_loss_in_words(report), width, INDENT)
    for cause in report.causes:
        lines += cause_lines(cause, width)
    for explanation in dict.fromkeys(report.explanations):
        lines += paragraph(f"possible cause: {explanation}", width, INDENT)
    for problem in dict.fromkeys(report.problems):
        lines += paragraph(problem, width, INDENT)
    return [*lines, Text(), *worst_lines(at_first, width, report.conditions.tolerance)]


def _loss_in_words(report: TrainingResult) -> str:
    """Say what the loss of the first step that differs is on both sides; empty if no loss was compared."""
    losses = [c for c in report.comparisons if c.kind == "loss" and c.call == report.differing]
    failed = next((c for c in losses if c.status != PASS), None)
    if not losses:
        return ""
    if failed is None:
        return f"the loss of step {report.differing} is the same on both sides"
    reference_loss, candidate_loss = failed.reference_value, failed.candidate_value
    if reference_loss is None or candidate_loss is None:
        return f"the loss of step {report.differing} differs"
    digits = digits_to_tell_apart([reference_loss, candidate_loss])
    ratio = f": {candidate_loss / reference_loss:.7g} times" if reference_loss else ""
    values = f"{candidate_loss:.{digits}g} in the {failed.side}, {reference_loss:.{digits}g} in {REFERENCE}"
    return f"the loss of step {report.differing} is {values}{ratio}"


def headline_in_words(report: TrainingResult) -> str:
    """Return the verdict on the training runs in a sentence."""
    within = report.conditions.within and f" {report.conditions.within}"
    if report.ok:
        after = f"after each of {pluralize(report.steps, 'step')}"
        return f"Training parity holds{within}: {_what_agrees(report)} with {REFERENCE} {after}"
    if not report.comparisons:
        return "No step was compared, so training parity is not shown"
    if report.differing is None:
        return "The trainings differ"
    if report.recipe:
        differing = [side for side in report.sides if report.first_of(side)]
        verb = "differs" if len(differing) == 1 else "differ"
        return f"Training parity fails{within}: {join_names(differing)} {verb} from {REFERENCE}"
    tensors = {c.tensor for c in report.failures if c.call == report.differing}
    of = len({c.tensor for c in report.comparisons})
    return f"The trainings differ from step {report.differing} on, in {len(tensors)} of {of} tensors"


def _what_agrees(report: TrainingResult) -> str:
    if report.recipe:
        return f"{join_names(report.sides)} agree{'s' if len(report.sides) == 1 else ''}"
    kinds = {k: len({c.tensor for c in report.comparisons if c.kind == k}) for k in ("parameter", "buffer")}
    counts = [pluralize(number, kind) for kind, number in kinds.items() if number]
    return f"{join_names(counts + ['the loss'] * any(c.kind == 'loss' for c in report.comparisons))} agree"


def worst_lines(failures: list[Comparison], width: int, tolerance: str) -> list[Text]:
    """Return the worst failure in full, by the tolerance in words where one was given, and the names of the others."""
    if not failures:
        return []
    worst = max(failures, key=lambda c: (c.kind != "loss", c.ratio))
    lines = [*paragraph(f"{_name(worst)}, after step {worst.call}", width, INDENT, "bold")]
    check = worst.check + (" in float64" if worst.check == "meaning" else "")
    lines += paragraph(f"{check}: {worst.reason}", width, 2 * INDENT)
    if worst.index is not None:
        lines += paragraph(error_line(worst, REFERENCE, tolerance), width, 2 * INDENT)
        lines += value_lines(worst, REFERENCE, width)
    others = [name for name in dict.fromkeys(c.tensor for c in failures) if name != worst.tensor]
    return lines + (paragraph(f"others that differ: {_list_names(others)}", width, INDENT) if others else [])


def _name(c: Comparison) -> str:
    return c.tensor if c.kind in ("loss", "overflow") else f"{c.kind} {c.tensor}"


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more}"
