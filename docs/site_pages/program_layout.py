"""Where the nodes and Cells of a program stand in a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

ROW, PILL, INDENT = 33.0, 22.0, 12.0
WIDE = 65.0  # half of the width of a pill
GAP = 24.0  # more between two rows that belong to different Cells


class Column:
    """Nodes of a program, one per row, in nested boxes of their Cells.

    Attributes:
        height: of the column.
        labels: what to show in place of the op, by node.
    """

    def __init__(
        self,
        program: Any,
        nodes: Sequence[Any],
        *,
        left: float,
        width: float,
        upwards: bool = False,
        least: float = 0.0,
        labels: Mapping[int, str] | None = None,
    ) -> None:
        self.labels = labels or {}
        self.calls = program.calls
        self.listed = list(nodes)
        self.left, self.width, self.upwards = left, width, upwards
        self.places = [1.2 * ROW]
        for before, after in pairwise(self.listed):
            self.places.append(self.places[-1] + ROW + GAP * (before.cell != after.cell))
        self.height = max(least, self.places[-1] + 1.2 * ROW)
        self.rows = {id(node): number for number, node in enumerate(self.listed)}
        self.producers = {id(value): node for node in self.listed for value in node.outputs}

    def y(self, row: int) -> float:
        """The middle of a row."""
        return self.height - self.places[row] if self.upwards else self.places[row]

    def depth(self, call: int) -> int:
        """How many Cells are around one."""
        parent = self.calls[call].parent
        return 0 if parent is None else 1 + self.depth(parent)

    def inside(self, call: int, outer: int) -> bool:
        """Whether a call of a Cell is another one, or within it."""
        return call == outer or (self.calls[call].parent is not None and self.inside(self.calls[call].parent, outer))

    def boxes(self) -> Iterator[str]:
        """A box for each Cell, around its rows."""
        for number, call in enumerate(self.calls):
            rows = [self.rows[id(node)] for node in self.listed if self.inside(node.cell, number)]
            if not rows:
                continue
            depth = self.depth(number)
            ends = sorted((self.y(min(rows)), self.y(max(rows))))
            top, bottom = ends[0] - PILL / 2 - 22 + depth, ends[1] + PILL / 2 + 10 - 2 * depth
            x, width = self.left + INDENT * depth, self.width - 2 * INDENT * depth
            yield (
                f'<rect class="c{min(depth, 2)} box" x="{x:g}" y="{top:g}" width="{width:g}" '
                f'height="{bottom - top:g}" rx="6"/>'
            )
            name = escape(f"{call.path or '(root)'} {call.class_name}")
            yield f'<text class="s" x="{x + 8:g}" y="{top + 13:g}">{name}</text>'

    def nodes(self) -> Iterator[str]:
        """A pill for each op."""
        for node in self.listed:
            y = self.y(self.rows[id(node)])
            boundary = node.op == "boundary"
            label = self.labels.get(id(node), node.op)
            if boundary:
                label = node.attributes["kind"].replace("_", " ")
            kind = "bd" if boundary else "bw" if self.upwards else "op"
            x = self.middle - WIDE
            yield (
                f'<rect class="{kind}" x="{x:g}" y="{y - PILL / 2:g}" width="{2 * WIDE:g}" height="{PILL:g}" '
                f'rx="{PILL / 2:g}"/>'
            )
            yield f'<text x="{self.middle:g}" y="{y + 4:g}" text-anchor="middle">{escape(label)}</text>'

    @property
    def middle(self) -> float:
        """Where the pills are."""
        return self.left + self.width / 2 + 30

    def edges(self) -> Iterator[str]:
        """An arrow for each use of a value that is computed in this column."""
        sign = -1 if self.upwards else 1
        for node in self.listed:
            row = self.rows[id(node)]
            for value in {id(value): value for value in node.inputs if value is not None}.values():
                producer = self.producers.get(id(value))
                if producer is None:
                    continue
                start = self.rows[id(producer)]
                y0, y1 = self.y(start) + sign * PILL / 2, self.y(row) - sign * PILL / 2
                x = self.middle
                if row == start + 1:
                    path = f"M{x:g} {y0:g}V{y1:g}"
                else:
                    bend = x + WIDE + min(38, 8 + 6 * (row - start))
                    y0, y1 = self.y(start), self.y(row)
                    path = f"M{x + WIDE:g} {y0:g}C{bend:g} {y0:g} {bend:g} {y1:g} {x + WIDE:g} {y1:g}"
                yield f'<path class="e" marker-end="url(#arrow)" d="{path}"/>'


def between(forward: Column, backward: Column) -> Iterator[str]:
    """A dashed line for each value of the forward pass that the gradient uses."""
    for node in backward.listed:
        for value in {id(value): value for value in node.inputs if value is not None}.values():
            producer = forward.producers.get(id(value))
            if producer is None:
                continue
            x0, y0 = forward.middle + WIDE, forward.y(forward.rows[id(producer)])
            x1, y1 = backward.middle - WIDE, backward.y(backward.rows[id(node)])
            yield f'<path class="e v" d="M{x0:g} {y0:g}C{x0 + 60:g} {y0:g} {x1 - 60:g} {y1:g} {x1:g} {y1:g}"/>'
