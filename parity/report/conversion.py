"""The view of a converted checkpoint: a summary, and with `-v` a line for each parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from ..weights.conversion import Conversion
from ..weights.transfer import Link
from .detail import pluralize
from .layout import GAP, Piece, Row, paragraph, print_lines, shorten_path, tree_lines

FEW = 3
"""Up to this many names are listed; more are counted by their last parts."""


def render(conversion: Conversion, source: str, target: str, console: Console, verbose: bool) -> None:
    """Print the view."""
    lines: list[Text] = []
    if verbose:
        lines += [*_table(conversion, console.width), Text()]
    changed = sum(bool(str(link.layout)) or len(link.cells) > 1 for link in conversion.links)
    renamed = sum(link.cells != (link.torch,) for link in conversion.links)
    what = f"wrote {target}: {pluralize(len(conversion.links), 'parameter')} of {source}, {renamed} under another name"
    lines += paragraph(what + (f", {changed} in another layout" if changed else ""), console.width)
    reasons = dict.fromkeys(dropped.why for dropped in conversion.drops)
    left_behind = [(why, _names(d.name for d in conversion.drops if d.why == why)) for why in reasons]
    for text in (*(f"left behind: {names} ({why})" for why, names in left_behind), *conversion.notes):
        lines += paragraph(text, console.width, indent=2)
    print_lines(lines, console)


def _names(names: Iterable[str]) -> str:
    names_ = list(names)
    if len(names_) <= FEW:
        return ", ".join(names_)
    leaves = Counter(name.rpartition(".")[2] for name in names_)
    return ", ".join(f"{count} {leaf}" if count > 1 else leaf for leaf, count in leaves.items())


def _table(conversion: Conversion, width: int) -> list[Text]:
    sides = f"in {conversion.other}", "in torch"
    if not conversion.back:
        sides = sides[::-1]
    rows = [row for link in conversion.links for row in _rows(link, conversion)]
    rows += [(dropped.name, "- left behind", "", "", "") for dropped in conversion.drops]
    heading = (*sides, "shape", "layout", "by")
    widths = [max(len(row[i]) for row in (heading, *rows)) for i in range(len(heading))]
    room = width - sum(widths[2:]) - (len(heading) - 1) * GAP
    second = min(widths[1], max(room // 2, room - widths[0]))
    short_rows = [
        Row((), ((shorten_path(row[0], room - second), ""), (shorten_path(row[1], second), ""), *_plain(row[2:])))
        for row in rows
    ]
    return tree_lines(heading, short_rows, width, left=len(heading))


def _plain(texts: Iterable[str]) -> Iterator[Piece]:
    yield from ((text, "") for text in texts)


def _rows(link: Link, conversion: Conversion) -> Iterator[tuple[str, ...]]:
    """Yield a row for each name of the Cells."""
    shape = str(list(conversion.shapes[0][link.torch]))
    for i, name in enumerate(link.cells):
        source, target = (name, link.torch) if conversion.back else (link.torch, name)
        if i == 0:
            yield source, _abbreviate(target, source), shape, str(link.layout), link.how
        else:
            names = (source, "") if conversion.back else ("", _abbreviate(target, source))
            yield *names, "", "", ""


def _abbreviate(name: str, source: str) -> str:
    """Return the name, with `…` for a prefix that is the same as in the source."""
    if name == source:
        return "same"
    prefix, dot, leaf = name.rpartition(".")
    return f"….{leaf}" if dot and prefix == source.rpartition(".")[0] else name
