"""What the page shows of two networks side by side: the lines where they part, and what was paired how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from ...results.hunk import CodeLine, Hunk
from ..hunks import has_lines_of_both
from ..layout import from_here

Piece = tuple[str, bool]
"""A part of a line, and whether the other side's lines lack it."""
SIMILAR = 0.5  # share of tokens in common from which on the others are marked; less alike is other code altogether
MOST_TOKENS = 1000  # of both sides; comparing them takes the square of that at worst
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class CodeBlock:
    """Lines of one file: the file, or the side where there is none, and each line's number (0 for none) and pieces."""

    file: str
    lines: Sequence[tuple[int, Sequence[Piece]]]


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
        pieces = [[(line.in_words, False)] for line in hunk.reference]
        return HunkView([Column("both sides", _blocks(hunk.reference, pieces))])
    columns = zip(sides, (hunk.reference, hunk.candidate), _marked(hunk), strict=True)
    return HunkView([Column(side, _blocks(of_side, pieces)) for side, of_side, pieces in columns])


def _blocks(lines: Sequence[CodeLine], pieces: Sequence[Sequence[Piece]]) -> list[CodeBlock]:
    return [
        CodeBlock(from_here(file), [(line.line, of_line) for line, of_line in of_file])
        for file, of_file in groupby(zip(lines, pieces, strict=True), key=lambda pair: pair[0].file)
    ]


def _marked(hunk: Hunk) -> tuple[list[list[Piece]], list[list[Piece]]]:
    """Return the lines of both sides in pieces, those marked that only one side has."""
    tokens = [[_TOKEN.findall(line.in_words) for line in lines] for lines in (hunk.reference, hunk.candidate)]
    reference, candidate = ([token for line in lines for token in line if not token.isspace()] for lines in tokens)
    same: tuple[set[int], set[int]] = set(range(len(reference))), set(range(len(candidate)))
    if len(reference) + len(candidate) <= MOST_TOKENS:
        matcher = SequenceMatcher(None, reference, candidate, autojunk=False)
        if matcher.ratio() >= SIMILAR:
            blocks = matcher.get_matching_blocks()
            same = (
                {block.a + i for block in blocks for i in range(block.size)},
                {block.b + i for block in blocks for i in range(block.size)},
            )
    return _in_pieces(tokens[0], same[0]), _in_pieces(tokens[1], same[1])


def _in_pieces(lines: Sequence[Sequence[str]], same: set[int]) -> list[list[Piece]]:
    """Join the tokens of each line to pieces; `same` are positions among all tokens that aren't white space."""
    pieces: list[list[Piece]] = []
    position = 0
    for line in lines:
        of_line: list[Piece] = []
        for token in line:
            is_marked = not token.isspace() and position not in same
            position += not token.isspace()
            if of_line and of_line[-1][1] == is_marked:
                of_line[-1] = (of_line[-1][0] + token, is_marked)
            else:
                of_line.append((token, is_marked))
        pieces.append(of_line)
    return pieces
