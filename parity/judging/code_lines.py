"""Gives every Cell that fails the lines of code at which the two networks part."""

from __future__ import annotations

from dataclasses import replace

from ..report.report import Report
from ..results.cause import Cause
from ..results.hunk import CodeLine, Hunk
from ..sides.abilities import HasCode
from ..sides.side import Side


def add_code_lines(report: Report, reference: Side, side: Side) -> None:
    """Where programs of a failing Cell don't say where a side parts, give the line at which its code begins.

    In the candidate, this is the line of what differs, if the run has recorded it. A program that was made of the
    reference comes from the reference's lines.
    """
    has_code = isinstance(side, HasCode) or side.capabilities.cells == "found"
    for path in [*report.failing, *report.reference_wrong]:
        cell = report.cells[path]
        recorded = next((c.source for c in cell.differences if c.side == side.name and c.source), "")
        candidate = (CodeLine.read(recorded),) if recorded else _definition(side, path)
        is_same_code = recorded and isinstance(reference, HasCode) and not has_code
        begin = Hunk(candidate if is_same_code else _definition(reference, path), candidate)
        cell.hunk = cell.hunk.filled_from(begin)
        causes = [replace(cause, hunk=cause.hunk.filled_from(cell.hunk)) for cause in cell.causes]
        cell.causes = [_with_construction(cause, reference, side, path) for cause in causes]


def _with_construction(cause: Cause, reference: Side, side: Side, path: str) -> Cause:
    """Return a cause with the lines that make the Cell, where both sides call it alike and make it otherwise."""
    if cause.kind not in ("attribute", "structure") or cause.hunk.texts[0] != cause.hunk.texts[1]:
        return cause
    sides = (reference, side)
    lines = [of.construction(path) if isinstance(of, HasCode) else None for of in sides]
    own, other = (() if line is None else (line,) for line in lines)
    made = Hunk(own, other)
    return replace(cause, hunk=made) if own and other and made.texts[0] != made.texts[1] else cause


def _definition(side: Side, path: str) -> tuple[CodeLine, ...]:
    line = side.definition(path) if isinstance(side, HasCode) else None
    return () if line is None else (line,)
