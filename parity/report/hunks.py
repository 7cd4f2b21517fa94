"""The lines of both sides at a place where they part, as in a diff: `-` for the reference, `+` for the candidate."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from ..results.correspondence import GIVEN, ROOT, CarriedWeight, PairedCell
from ..results.hunk import CodeLine, Hunk
from .layout import from_here, paragraph, shorten, shorten_path

MAX_LINES = 4
"""Lines of a side that are shown."""
MAX_ROWS = 3
"""Rows in which a line is shown, if it is longer than one."""
INDENT = 2

_WAYS = {ROOT: "as the whole network", GIVEN: "as given"}


def pair_in_words(pair: PairedCell) -> str:
    """Return the Cell that a module is paired with, and how: `a part of block  Block, by values (joined)`."""
    return f"{cell_of_pair(pair)}  {pair.cell_class}, {way_in_words(pair)}"


def cell_of_pair(pair: PairedCell) -> str:
    """Return the path of the other side's Cell, of which the module may be a part."""
    return f"{'a part of ' * pair.is_part}{pair.cell or '(root)'}"


def way_in_words(pair: PairedCell | CarriedWeight) -> str:
    """Return how the partner was found, and in what layout: `by values (joined)`, `as given`."""
    how = _WAYS.get(pair.how, f"by {pair.how}")
    return f"{how} ({pair.layout})" if pair.layout else how


def pairs_in_words(pairs: Sequence[PairedCell]) -> str:
    """Return the number of pairs, by how they were found: `24 Cells are paired by values, 1 by values (joined)`."""
    (first, count), *others = Counter(way_in_words(pair) for pair in pairs).most_common()
    cells = "1 Cell is" if count == 1 else f"{count} Cells are"
    return ", ".join([f"{cells} paired {first}", *(f"{number} {way}" for way, number in others)])


def has_lines_of_both(hunk: Hunk) -> bool:
    """Whether the reference and the candidate have lines of their own."""
    return bool(hunk.reference) and hunk.reference != hunk.candidate


def hunk_lines(hunk: Hunk, sides: tuple[str, str], width: int) -> list[Text]:
    """Return the lines of both sides, each after its file; those that both sides have as the place of both.

    Args:
        hunk: the lines.
        sides: names of the sides, which stand for a file where there is none.
        width: characters of a line.
    """
    if hunk.reference == hunk.candidate:
        return [text for line in hunk.reference[:MAX_LINES] for text in place_lines(line, width)]
    digits = max((len(str(line.line)) for line in (*hunk.reference, *hunk.candidate) if line.line), default=0)
    texts: list[Text] = []
    for sign, style, lines, name in zip("-+", ("red", "green"), (hunk.reference, hunk.candidate), sides, strict=True):
        texts += [Text(line, style) for line in _of_side(sign, lines, name, digits, width)]
    return texts


def _of_side(sign: str, lines: Sequence[CodeLine], name: str, digits: int, width: int) -> Iterator[str]:
    for file, of_file in groupby(lines[:MAX_LINES], key=lambda line: line.file):
        head = f"{' ' * INDENT}{sign * 3} "
        yield head + shorten_path(from_here(file) or name, width - len(head))
        for line in of_file:
            number = f"{line.line or '':>{digits}} " if digits else ""
            prefix = f"{' ' * INDENT}{sign} {number}"
            indent = f"{' ' * INDENT}{sign} {' ' * len(number)}  "
            yield from textwrap.wrap(
                line.in_words or "…", width, initial_indent=prefix, subsequent_indent=indent, max_lines=MAX_ROWS,
                placeholder=" …", break_on_hyphens=False,
            )  # fmt: skip
    if len(lines) > MAX_LINES:
        yield f"{' ' * INDENT}{sign} and {len(lines) - MAX_LINES} more"


def place_lines(line: CodeLine, width: int) -> list[Text]:
    """Return `file:line` on one line, and the text of that source line below; or the node of a file."""
    if not line.file:
        return paragraph(f"from {line.in_words}", width, 2 * INDENT)
    location = shorten_path(f"{from_here(line.file)}:{line.line}", width - 2 * INDENT - 5)
    return [
        Text(f"{' ' * 2 * INDENT}from {location}"),
        Text(shorten(f"{' ' * 3 * INDENT}{line.text}", width), "dim"),
    ]
