"""The view of a `TrainingReport` for a person."""

from __future__ import annotations

from rich.text import Text

from ..results import Comparison
from ..training_report import TrainingReport
from .detail import INDENT, counted, size_line, times, value_lines
from .layout import paragraph

WIDTH = 80
REFERENCE = "torch"


def training_text(report: TrainingReport) -> str:
    """The verdict, and what differs first, as plain text."""
    lines = _agreement(report) if report.ok else _differences(report)
    lines += [line for note in report.notes for line in paragraph(f"note: {note}", WIDTH, INDENT)]
    return "\n".join(line.plain for line in lines)


def _agreement(report: TrainingReport) -> list[Text]:
    kinds = {kind: len({c.tensor for c in report.comparisons if c.kind == kind}) for kind in ("parameter", "buffer")}
    what = [counted(number, kind) for kind, number in kinds.items() if number]
    what += ["the loss"] if any(c.kind == "loss" for c in report.comparisons) else []
    lines = paragraph(
        f"✓ Training parity holds: {' and '.join([', '.join(what[:-1]), what[-1]] if what[1:] else what)} agree with "
        f"{REFERENCE} after each of {counted(report.steps, 'step')}",
        WIDTH,
    )
    for check in dict.fromkeys(c.check for c in report.comparisons):
        worst = max((c for c in report.comparisons if c.check == check), key=lambda c: c.ratio)
        unit = "what double precision allows" if check == "meaning" else f"{REFERENCE}'s own rounding error"
        dtype = "float64" if check == "meaning" else report.dtype
        place = f"{_name(worst)}, step {worst.call}"
        most = times(worst.ratio) if worst.ratio >= 1 else f"{worst.ratio:.1g}×"
        lines += paragraph(f"{check} in {dtype}: at most {most} {unit} ({place})", WIDTH, INDENT)
    return lines


def _differences(report: TrainingReport) -> list[Text]:
    first = report.differing
    at_first = [c for c in report.failures if c.call == first]
    if not report.comparisons:
        lines = paragraph("✗ No step was compared, so training parity is not shown", WIDTH)
    elif first is None:
        lines = paragraph("✗ The trainings differ", WIDTH)
    else:
        names = dict.fromkeys(c.tensor for c in at_first)
        of = len({c.tensor for c in report.comparisons})
        lines = paragraph(f"✗ The trainings differ from step {first} on, in {len(names)} of {of} tensors", WIDTH)
    held = f"{report.model}: {report.side} against {REFERENCE}, {counted(report.steps, 'step')}, {report.dtype}"
    lines += paragraph(held, WIDTH, INDENT)
    for cause in report.causes:
        lines += paragraph(f"possible cause: {cause}", WIDTH, INDENT)
    for problem in report.problems:
        lines += paragraph(problem, WIDTH, INDENT)
    return lines + _worst(at_first)


def _worst(failures: list[Comparison]) -> list[Text]:
    """The parameter or buffer that is furthest off, for its size, in full; the others by name."""
    if not failures:
        return []
    worst = max(failures, key=lambda c: (c.kind != "loss", c.ratio))
    lines = [Text(), *paragraph(f"{_name(worst)}, after step {worst.call}", WIDTH, INDENT, "bold")]
    check = worst.check + (" in float64" if worst.check == "meaning" else "")
    lines += paragraph(f"{check}: {worst.reason}", WIDTH, 2 * INDENT)
    if worst.index is not None:
        lines += paragraph(size_line(worst, REFERENCE), WIDTH, 2 * INDENT)
        lines += value_lines(worst, REFERENCE, WIDTH)
    others = [name for name in dict.fromkeys(c.tensor for c in failures) if name != worst.tensor]
    if others:
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        lines += paragraph(f"likewise: {', '.join(others[:4])}{more}", WIDTH, INDENT)
    return lines


def _name(c: Comparison) -> str:
    return c.tensor if c.kind == "loss" else f"{c.kind} {c.tensor}"
