"""What the page shows of two networks side by side: the lines where they part, and what was paired how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ...results.hunk import CodeLine, Hunk
from ..hunks import has_lines_of_both
from ..layout import from_here

LineOfSide = tuple[str, str]
"""The name of a side, and a line of its code as `file:line: text`."""


@dataclass(frozen=True)
class CodeBlock:
    """Lines of one file: the file, or the side where there is none, and each line's number (0 for none) and text."""

    file: str
    lines: Sequence[tuple[int, str]]


@dataclass(frozen=True)
class Column:
    """One side of a hunk.

    Attributes:
        side: its name.
        blocks: its lines; none where they aren't known.
    """

    side: str
    blocks: Sequence[CodeBlock]


@dataclass(frozen=True)
class HunkView:
    """A hunk in two columns, the reference's and the candidate's; or in one, where both have the same lines."""

    columns: Sequence[Column]


@dataclass(frozen=True)
class PairLine:
    """A line of a table: what the reference has, its class, what it is paired with, that one's class, and how."""

    name: str
    link: str
    class_name: str
    partner: str
    partner_class: str
    how: str


@dataclass(frozen=True)
class PairingTable:
    """What was paired how.

    Attributes:
        summary: the counts in words.
        cells: the Cells of the reference.
        parameters: the parameters of the other side, with those of the reference that they are made of.
        left_out: number of lines that aren't among these.
    """

    summary: str
    cells: Sequence[PairLine]
    parameters: Sequence[PairLine]
    left_out: int


def hunk_view(hunk: Hunk, sides: tuple[str, str], *, of_cause: bool) -> HunkView | None:
    """Return a hunk in columns; None if it is empty or, without a cause, says no more than the line of a tensor.

    Args:
        hunk: the lines.
        sides: names of the reference and the candidate.
        of_cause: whether a cause has this place.
    """
    if not hunk or not (of_cause or has_lines_of_both(hunk)):
        return None
    if hunk.reference == hunk.candidate:
        return HunkView([Column("both sides", _blocks(hunk.reference))])
    lines = hunk.reference, hunk.candidate
    return HunkView([Column(side, _blocks(of_side)) for side, of_side in zip(sides, lines, strict=True)])


def lines_of_sides(hunk: Hunk, sides: tuple[str, str]) -> list[LineOfSide]:
    """Return the first line of each side, with the side's name; one for both, if they have the same."""
    if hunk.reference == hunk.candidate:
        return [("both sides", _in_a_line(hunk.reference[0]))] if hunk else []
    lines = zip(sides, (hunk.reference, hunk.candidate), strict=True)
    return [(side, _in_a_line(of_side[0])) for side, of_side in lines if of_side]


def _in_a_line(line: CodeLine) -> str:
    return f"{line.file}:{line.line}: {line.in_words}" if line.file else line.in_words


def _blocks(lines: Sequence[CodeLine]) -> list[CodeBlock]:
    return [
        CodeBlock(from_here(file), [(line.line, line.in_words) for line in of_file])
        for file, of_file in groupby(lines, key=lambda line: line.file)
    ]
