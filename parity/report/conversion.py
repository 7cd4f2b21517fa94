"""The view of a converted checkpoint: how much became what, and with `-v` a line for each parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from ..weights.checkpoints import Conversion
from ..weights.transfer import Link
from .detail import counted
from .layout import GAP, Piece, Row, paragraph, shortened_path, show, tree_lines

FEW = 3
"""So many names are listed; of more, how often each last part of them occurs."""


def render(done: Conversion, source: str, target: str, console: Console, verbose: bool) -> None:
    """Print it."""
    lines: list[Text] = []
    if verbose:
        lines += [*_table(done, console.width), Text()]
    changed = sum(bool(str(link.layout)) or len(link.cells) > 1 for link in done.links)
    renamed = sum(link.cells != (link.torch,) for link in done.links)
    what = f"wrote {target}: {counted(len(done.links), 'parameter')} of {source}, {renamed} under another name"
    lines += paragraph(what + (f", {changed} in another layout" if changed else ""), console.width)
    reasons = dict.fromkeys(dropped.why for dropped in done.dropped)
    left = [(why, _names(d.name for d in done.dropped if d.why == why)) for why in reasons]
    for text in (*(f"left behind: {names} ({why})" for why, names in left), *done.notes):
        lines += paragraph(text, console.width, indent=2)
    show(lines, console)


def _names(names: Iterable[str]) -> str:
    found = list(names)
    if len(found) <= FEW:
        return ", ".join(found)
    leaves = Counter(name.rpartition(".")[2] for name in found)
    return ", ".join(f"{count} {leaf}" if count > 1 else leaf for leaf, count in leaves.items())


def _table(done: Conversion, width: int) -> list[Text]:
    sides = ("in Cells", "in torch") if done.back else ("in torch", "in Cells")
    rows = [row for link in done.links for row in _rows(link, done)]
    rows += [(dropped.name, "- left behind", "", "", "") for dropped in done.dropped]
    heading = (*sides, "shape", "layout", "by")
    widths = [max(len(row[i]) for row in (heading, *rows)) for i in range(len(heading))]
    room = width - sum(widths[2:]) - (len(heading) - 1) * GAP
    second = min(widths[1], max(room // 2, room - widths[0]))
    cut = [
        Row((), ((shortened_path(row[0], room - second), ""), (shortened_path(row[1], second), ""), *_plain(row[2:])))
        for row in rows
    ]
    return tree_lines(heading, cut, width, left=len(heading))


def _plain(texts: Iterable[str]) -> Iterator[Piece]:
    yield from ((text, "") for text in texts)


def _rows(link: Link, done: Conversion) -> Iterator[tuple[str, ...]]:
    """One for each name of the Cells."""
    shape = str(list(done.shapes[0][link.torch]))
    for i, name in enumerate(link.cells):
        source, target = (name, link.torch) if done.back else (link.torch, name)
        if i == 0:
            yield source, _briefly(target, source), shape, str(link.layout), link.how
        else:
            names = (source, "") if done.back else ("", _briefly(target, source))
            yield *names, "", "", ""


def _briefly(name: str, source: str) -> str:
    """The name, with `…` for what is before its last part if that is as in the source."""
    if name == source:
        return "same"
    prefix, dot, leaf = name.rpartition(".")
    return f"….{leaf}" if dot and prefix == source.rpartition(".")[0] else name
