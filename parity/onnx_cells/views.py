"""Tensors of a module that a file has in another layout: its program is rewritten to have them as they are.

Where a value holds a tensor with other axes, the program gets the tensor as a value of its own, and everything after it
uses the tensor, brought back into the file's layout. A boundary then finds its place there like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Source, Value
from ...runtime.namespace import Namespace
from .crossings import Crossing
from .file_values import EXACT, FileValues, distance
from .layouts import Layout, find_layout, plain_layouts

SIMILAR = 1e-6
"""How far norms of equal tensors may be apart, relative to one of them: sums in another order are rounded otherwise."""
MOST_HYPOTHESES = 200


@dataclass(frozen=True)
class View:
    """A tensor of the module in a file's program.

    Attributes:
        value: the file's value, in its own layout.
        layout: how the tensor is read from it.
        steps: the values that reading takes, the tensor as the last.
        restoring: the values that bringing it back takes, one of the file's layout as the last.
    """

    value: Value
    layout: Layout
    steps: tuple[Value, ...]
    restoring: tuple[Value, ...]

    @classmethod
    def of(cls, value: Value, layout: Layout, names: Namespace) -> View:
        """Return the view of a value in a layout."""

        def values(of: Layout, suffix: str) -> tuple[Value, ...]:
            name = f"{value.name}_{suffix}"
            return tuple(Value(names.unique(name), value.type.with_shape(shape)) for _, _, shape in of.steps)

        return cls(value, layout, values(layout, "view"), values(layout.inverse, "back"))

    def nodes(self, before: Value, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that read the tensor from a value and bring it back."""
        for layout, results in ((self.layout, self.steps), (self.layout.inverse, self.restoring)):
            for (op, attributes, _), result in zip(layout.steps, results, strict=True):
                yield Node(op, (before,), attributes, (result,), cell, source)
                before = result


def find_views(file: FileValues, tensors: Sequence[Crossing]) -> list[View]:
    """Return the tensors of the module that the file has in other layouts.

    A tensor of which the file has a copy as it is belongs where the copy was made, too, if other nodes use the value
    there: only there, its gradient is whole. After a wrong value, nothing agrees; see `_hypotheses`.
    """
    names = Namespace((value.name for value in file.values), first=1)
    stored = set(file.flat.program.constant_data)
    values = [v for v in file.rank if v not in stored and _is_readable(v) and file.values[v][0].dtype.kind == "f"]
    of_shape: dict[tuple[int, ...], list[Value]] = {}
    of_size: dict[int, list[Value]] = {}
    for value in values:
        of_shape.setdefault(file.values[value][0].shape, []).append(value)
        of_size.setdefault(file.values[value][0].size, []).append(value)
    norms = {value: float(np.linalg.norm(file.values[value][0])) for value in values}
    agreeing: set[Value] = set()
    missing: list[Crossing] = []
    copies: dict[Crossing, Value] = {}
    for tensor in tensors:
        if tensor.varies and tensor.floating:
            same = [v for v in of_shape.get(tensor.shape, []) if distance(file.values[v], tensor.arrays) <= EXACT]
            agreeing.update(same)
            if same:
                copies[tensor] = same[0]
            else:
                missing.append(tensor)
    views: dict[tuple[Value, Layout], View] = {}
    known: dict[Layout, None] = {}

    def add(value: Value, layout: Layout) -> None:
        if (value, layout) not in views:
            views[value, layout] = View.of(value, layout, names)

    for tensor, value in copies.items():
        origin = _origin(file, value)
        if origin not in agreeing and len(file.flat.consumers.get(origin, [])) > 1:
            layout = find_layout(file.values[origin], tensor.arrays, known)
            if layout is not None:
                known[layout] = None
                add(origin, layout)
    unknown: list[Crossing] = []
    for tensor in missing:
        norm = float(np.linalg.norm(tensor.arrays[0]))
        for value in of_size.get(tensor.arrays[0].size, []):
            if abs(norms[value] - norm) <= SIMILAR * norm:
                layout = find_layout(file.values[value], tensor.arrays, known)
                if layout is not None:
                    known[layout] = None
                    add(value, layout)
                    agreeing.add(value)
                    break
        else:
            unknown.append(tensor)
    for value, layout in _hypotheses(file.flat.program, unknown, of_shape, agreeing, known):
        add(value, layout)
    return list(views.values())


def _hypotheses(
    program: Program,
    unknown: Sequence[Crossing],
    of_shape: Mapping[tuple[int, ...], Sequence[Value]],
    agreeing: Collection[Value],
    known: Collection[Layout],
) -> list[tuple[Value, Layout]]:
    """Return values that agree with no tensor, with the layouts in which they may be one.

    Those are the layouts of other tensors, and orders of axes between which the program itself changes.
    """
    permutations = {layout.permutation for layout in known if layout.exchanges_axes}
    for node in program.nodes:
        if node.op == "transpose":
            permutation = node.attributes["permutation"]
            permutations |= {tuple(permutation), tuple(int(axis) for axis in np.argsort(permutation))}
    layouts: dict[Layout, None] = {}
    for target in dict.fromkeys(tensor.shape for tensor in unknown):
        for source in of_shape:
            same = [layout for layout in known if (layout.source, layout.target) == (source, target)]
            exchanged = (x for x in plain_layouts(source, target) if x.exchanges_axes and x.permutation in permutations)
            layouts |= dict.fromkeys(same or exchanged)
    possible = [(value, layout) for layout in layouts for value in of_shape[layout.source] if value not in agreeing]
    return possible[:MOST_HYPOTHESES]


def _origin(file: FileValues, value: Value) -> Value:
    """Return the value of which a value is a copy in another layout, through any number of them."""
    while (node := file.flat.program.producers.get(value)) is not None and node.op in ("reshape", "transpose"):
        before = node.inputs[0]
        if before is None or before not in file.rank or not _is_readable(before):
            break
        value = before
    return value


def _is_readable(value: Value) -> bool:
    return all(isinstance(dim, int) for dim in value.shape)


def with_views(program: Program, views: Sequence[View]) -> Program:
    """Return a program that computes these tensors, and what follows from them."""
    of_value: dict[Value, list[View]] = {}
    for view in views:
        of_value.setdefault(view.value, []).append(view)
    current: dict[Value, Value] = {}
    nodes: list[Node] = []

    def read(values: Sequence[Value], cell: int, source: Source | None) -> None:
        for value in values:
            for view in of_value.get(value, []):
                nodes.extend(view.nodes(current.get(value, value), cell, source))
                current[value] = view.restoring[-1]

    read(program.inputs, 0, None)
    for node in program.nodes:
        inputs = tuple(None if value is None else current.get(value, value) for value in node.inputs)
        nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
        read(node.outputs, node.cell, node.source)
    return program.replace(nodes=tuple(nodes), outputs=tuple(current.get(value, value) for value in program.outputs))


def used_views(views: Sequence[View], places: Collection[Value]) -> list[View]:
    """Return the views of which a value is a place."""
    return [view for view in views if not {*view.steps, *view.restoring}.isdisjoint(places)]
