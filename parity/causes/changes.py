"""Differences that are one change of the code, by which they are told.

Slices have several attributes that are one index, two values may be in each other's place, a Cell may be called at
another place, and a line may run several times: in a loop, or in a function that is called for q, k and v.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...runtime.ir.types import Node, Source, Value
from ..sides.records import OUTPUT
from .differences import Comparison, Difference
from .naming import Passed, called_elsewhere, cells_of_nodes, returning_cell


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes:
        differences: one difference, the attributes of one slice, two operands in each other's place, or a Cell that is
            left out and called elsewhere.
        places: number of places with such differences; the differences are those of the first.
        moved: for Cells that are called at another place, their paths.
    """

    differences: tuple[Difference, ...]
    places: int = 1
    moved: tuple[str, ...] = ()

    @property
    def is_exchange(self) -> bool:
        """Whether two operands are in each other's place."""
        return len(self.differences) == 2 and self.differences[0].kind == "operand"


def changes(differences: Sequence[Difference], comparison: Comparison) -> list[Change]:
    """Return the changes that some differences of two programs are: those in most places first, then in their order."""
    if moved := _moved_cells(differences, comparison):
        return [Change(tuple(differences), moved=moved)]
    by_line: dict[Hashable, Change] = {}
    for number, change in enumerate(_in_one_place(differences, comparison)):
        line = _line(change, comparison)
        line = number if line is None else line
        before = by_line.get(line)
        by_line[line] = change if before is None else replace(before, places=before.places + 1)
    return sorted(by_line.values(), key=lambda change: -change.places)


def _in_one_place(differences: Sequence[Difference], comparison: Comparison) -> Iterator[Change]:
    taken: set[int] = set()
    for number, difference in enumerate(differences):
        if number in taken:
            continue
        others = range(number + 1, len(differences))
        if difference.kind == "attribute" and _nodes(difference, comparison)[0][0].op == "slice":
            same = [n for n in others if (differences[n].kind, differences[n].pair) == ("attribute", difference.pair)]
        else:
            same = [n for n in others if n not in taken and comparison.are_exchanged(difference, differences[n])][:1]
        taken.update(same)
        yield Change((difference, *(differences[n] for n in same)))


def _moved_cells(differences: Sequence[Difference], comparison: Comparison) -> tuple[str, ...]:
    """Return the Cells that the candidate calls at another place, if that is all that differs."""
    if len(differences) != 2 or {d.kind for d in differences} != {"nodes"}:
        return called_elsewhere(_passed(d, comparison) for d in differences)
    left_out, added = sorted(differences, key=lambda d: not d.nodes)
    if left_out.other_nodes or added.nodes:
        return ()
    cells, rest = cells_of_nodes(comparison.reference, left_out.nodes)
    others, more = cells_of_nodes(comparison.candidate, added.other_nodes)
    return tuple(cells) if len(cells) == 1 and cells == others and not rest and not more else ()


def _passed(d: Difference, comparison: Comparison) -> Passed:
    """What is passed to a Cell, or used elsewhere, in place of what."""
    if d.kind == "output":
        key = comparison.reference.output_keys[int(d.name)]
        to = key.path if key.kind != OUTPUT else None
        values: tuple[Value | None, Value | None] = comparison.output_pairs[int(d.name)]
    elif d.kind == "operand":
        node, other = (nodes[0].inputs[int(d.name)] for nodes in _nodes(d, comparison))
        values, to = (node, other), None
    else:
        return Passed(None, frozenset())
    sides = (comparison.reference, comparison.candidate)
    paths = (returning_cell(cell, value) for cell, value in zip(sides, values, strict=True) if value is not None)
    return Passed(to, frozenset(path for path in paths if path is not None))


def _line(change: Change, comparison: Comparison) -> Hashable:
    """What is changed, and the lines of both sides that it stands on; None if these aren't known."""
    parts: list[Hashable] = []
    for difference in change.differences:
        reference_nodes, candidate_nodes = _nodes(difference, comparison)
        sources = [node.source for node in (*reference_nodes[:1], *candidate_nodes[:1])]
        if not sources or None in sources:
            return None
        parts.append(
            (
                difference.kind,
                difference.name,
                *(n.op for n in reference_nodes),
                "",
                *(n.op for n in candidate_nodes),
                *sources,
            )
        )
    return tuple(parts)


def _nodes(difference: Difference, comparison: Comparison) -> tuple[Sequence[Node], Sequence[Node]]:
    """The nodes of both sides that a difference is in."""
    i, j = difference.pair
    if i is None or j is None:
        return difference.nodes, difference.other_nodes
    return [comparison.reference.program.nodes[i]], [comparison.candidate.program.nodes[j]]


def source_in_reference(differences: Sequence[Difference], comparison: Comparison) -> Source | None:
    """Return the line of the reference in which the first of some differences is; None if it isn't known."""
    in_nodes = [d for d in differences if d.kind in ("attribute", "constant", "operand", "nodes")]
    sources = [node.source for d in in_nodes for node in _nodes(d, comparison)[0]]
    return next((source for source in sources if source is not None and source.file), None)
