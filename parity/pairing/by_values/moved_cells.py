"""Cells that a file computes at another place than the module: a norm before a block in place of after it.

The order in which parameters are used shows them: what the module computes in an earlier Cell can't depend on a later
one. If it does in the file, one of the two was moved. What a moved Cell is given and returns is nowhere in the file.
But the smallest Cell around it that the file still computes in one piece ends with a value that all paths go through.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ....runtime.ir.types import Node, Value
from ...results.cell_report import is_inside
from ...sides.records import OUTPUT, Array
from .crossings import Crossing
from .flat import FlatProgram
from .parameter_uses import cells_of_nodes


@dataclass(frozen=True)
class Moves:
    """What a file computes at another place.

    Attributes:
        cells: paths of the moved Cells.
        divided: paths of these and of the Cells that hold them and that the file doesn't compute in one piece.
        ends: for the smallest Cells that hold them in one piece, what they return, and the value that it is.
        values: what the file computes with the parameters of moved Cells, and their paths.
    """

    cells: frozenset[str] = frozenset()
    divided: frozenset[str] = frozenset()
    ends: Mapping[Crossing, Value] = field(default_factory=dict)
    values: Mapping[Value, str] = field(default_factory=dict)


def find_moves(flat: FlatProgram, tensors: Sequence[Crossing], parameters: Mapping[str, Array]) -> Moves:
    """Find the Cells that a file computes at another place, as far as a Cell around them is in one piece.

    Args:
        flat: the file's program.
        tensors: the tensors that cross the module's boundaries.
        parameters: the module's parameters by name.
    """
    results = _results(tensors)
    numbers = {path: number for number, path in enumerate(results)}
    of_cells = {n: a for n, a in parameters.items() if n.rpartition(".")[0] in numbers and a.size > 1}
    names = sorted(of_cells, key=lambda name: numbers[name.rpartition(".")[0]])
    cells = cells_of_nodes(flat, {name: of_cells[name] for name in names})
    sizes: dict[str, int] = {}
    for name in names:
        path = name.rpartition(".")[0]
        sizes[path] = sizes.get(path, 0) + of_cells[name].size
    moved: set[str] = set()
    divided: set[str] = set()
    ends: dict[Crossing, Value] = {}
    passed_by = _moved(_conflicts(flat, cells, list(sizes)), sizes)
    if not _conflicts(flat, _exchanged(cells, passed_by, sizes), list(sizes)):
        return Moves()  # only the parameters are in each other's place
    for cell, others in passed_by.items():
        around = [path for path in results if is_inside(cell, path)]
        for path in sorted(around, key=len, reverse=True):
            if not all(is_inside(other, path) for other in others):
                continue
            end = _end_of(flat, cells, {other for other in sizes if is_inside(other, path)}, results[path].shape)
            if end is not None:
                ends[results[path]] = end
                moved.add(cell)
                divided |= {cell, *(inner for inner in around if is_inside(inner, path))}
                break
    values = {value: path for node, own in cells.items() for path in moved & (own or set()) for value in node.outputs}
    return Moves(frozenset(moved), frozenset(divided), ends, values)


def _results(tensors: Sequence[Crossing]) -> dict[str, Crossing]:
    """Return what each Cell returns that is called once and returns one tensor, by path, in the order of the module."""
    returned_by: dict[str, list[Crossing]] = {}
    for tensor in sorted(tensors, key=lambda tensor: tensor.order):
        for key in tensor.keys:
            if key.kind == OUTPUT and key.path:
                returned_by.setdefault(key.path, []).append(tensor)
    return {path: returned[0] for path, returned in returned_by.items() if len(returned) == 1}


def _conflicts(flat: FlatProgram, cells: Mapping[Node, set[str] | None], order: Sequence[str]) -> dict[str, set[str]]:
    """Return the Cells of which one depends in the file on one that the module computes later, for each of both.

    Two that depend on each other, as in a loop, say nothing. Nor do a Cell and one inside it: a Cell may use parameters
    of its own before those inside it, or after them.
    """
    before: dict[str, set[str]] = {}
    reached: dict[Value, frozenset[str]] = {}
    for node in flat.program.nodes:
        given = frozenset[str]().union(*(reached.get(value, ()) for value in node.inputs if value is not None))
        own = cells.get(node) or set()
        for path in own:
            before.setdefault(path, set()).update(given)
        reached |= dict.fromkeys(node.outputs, given | own if own else given)
    conflicts: dict[str, set[str]] = {}
    for number, first in enumerate(order):
        for second in order[number + 1 :]:
            if is_inside(first, second):  # which returns after it
                continue
            if second in before.get(first, ()) and first not in before.get(second, ()):
                conflicts.setdefault(first, set()).add(second)
                conflicts.setdefault(second, set()).add(first)
    return conflicts


def _moved(conflicts: Mapping[str, set[str]], sizes: Mapping[str, int]) -> dict[str, set[str]]:
    """Return the Cells without which the others are in order, the fewest and the smallest, with what they passed by."""
    left = {cell: set(others) for cell, others in conflicts.items()}
    moved: dict[str, set[str]] = {}
    while any(left.values()):
        cell = max(left, key=lambda cell: (len(left[cell]), -sizes[cell]))
        moved[cell] = conflicts[cell]
        for other in left.pop(cell):
            left[other].discard(cell)
    return moved


def _exchanged(
    cells: Mapping[Node, set[str] | None], moved: Collection[str], sizes: Mapping[str, int]
) -> dict[Node, set[str] | None]:
    """Return the Cells of nodes if those of each size among the moved ones are in the order of the module."""
    in_file = dict.fromkeys(path for own in cells.values() for path in sorted(own or ()) if path in moved)
    others: dict[str, str] = {}
    for size in {sizes[path] for path in in_file}:
        first = [path for path in in_file if sizes[path] == size]
        others |= zip(first, [path for path in sizes if path in first], strict=True)
    return {n: None if own is None else {others.get(path, path) for path in own} for n, own in cells.items()}


def _end_of(
    flat: FlatProgram, cells: Mapping[Node, set[str] | None], inside: set[str], shape: tuple[int, ...]
) -> Value | None:
    """Return the only value of a shape that all paths from some Cells go through before they reach another Cell.

    Such a value is the only one of those that depend on these Cells that is needed after it is computed.
    """
    last_use = {value: number for number, node in enumerate(flat.program.nodes) for value in node.inputs}
    last_use |= dict.fromkeys(flat.program.outputs, len(flat.program.nodes))
    needed: set[Value] = set()
    met: set[str] = set()
    ends: list[Value] = []
    for number, node in enumerate(flat.program.nodes):
        own, depends = cells.get(node, set()), not needed.isdisjoint(node.inputs)
        if depends and (own is None or not own <= inside):
            break
        met |= inside & (own or set())
        if depends or not inside.isdisjoint(own or ()):
            needed.update(node.outputs)
        needed = {value for value in needed if last_use.get(value, -1) > number}
        if met == inside and needed == set(node.outputs) and tuple(node.outputs[0].shape) == shape:
            ends.append(node.outputs[0])
    return ends[0] if len(ends) == 1 else None
