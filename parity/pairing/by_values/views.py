"""Tensors of a module that a file has in another layout: its program is rewritten to have them as they are.

Where a value holds a tensor with other axes, the program gets the tensor as a value of its own, and everything after it
uses the tensor, brought back into the file's layout. A boundary then finds its place there like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.program import Program
from ....runtime.ir.types import INT64, Constant, Node, Source, Type, Value
from ....runtime.namespace import Namespace
from ....runtime.ops.registry import get
from ...correspondence.distances import EXACT, ROUNDED, Array, Arrays, EqualArrays, distance
from ...correspondence.layouts import Layout, find_layout, plain_layouts, with_features_in_order
from ...sides.records import OUTPUT
from .crossings import Crossing
from .file_values import FileValues
from .flat import COPYING
from .joined_orders import layout_of_parts

SIMILAR = 1e-6
"""How far norms of equal tensors may be apart, relative to one of them: sums in another order are rounded otherwise."""
MOST_SUPPOSED = 200


@dataclass(frozen=True)
class View:
    """A tensor of the module in a file's program.

    Attributes:
        value: the file's value, in its own layout.
        layout: how the tensor is read from it.
        steps: the values that reading takes, the tensor as the last.
        restoring: the values that bringing it back takes, one of the file's layout as the last; none for a tensor that
            nothing of what follows is computed from.
        orders: the orders in which elements are taken to read it and to bring it back, if they have another one.
    """

    value: Value
    layout: Layout
    steps: tuple[Value, ...]
    restoring: tuple[Value, ...]
    orders: tuple[Constant, ...] = ()

    @classmethod
    def of(cls, value: Value, layout: Layout, names: Namespace, *, is_used: bool) -> View:
        """Return the view of a value in a layout; see `restoring` for tensors that aren't used."""

        def values(of: Layout, suffix: str) -> tuple[Value, ...]:
            name = f"{value.name}_{suffix}"
            return tuple(Value(names.unique(name), value.type.with_shape(shape)) for _, _, shape in of.steps)

        def order(of: Layout) -> Constant:
            data: Array = np.array(of.order, np.int64)
            return Constant(Value(names.unique(f"{value.name}_order"), Type(INT64, data.shape)), data)

        ways = (layout, layout.inverse) if is_used else (layout,)
        orders = tuple(order(way) for way in ways if way.order)
        return cls(value, layout, values(layout, "view"), values(layout.inverse, "back") if is_used else (), orders)

    def nodes(self, before: Value, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that read the tensor from a value and bring it back."""
        orders = iter(self.orders)
        for layout, results in ((self.layout, self.steps), (self.layout.inverse, self.restoring)):
            if not results:
                continue
            for (op, attributes, _), result in zip(layout.steps, results, strict=True):
                operands = (before, next(orders).value) if op == "take" else (before,)
                yield Node(op, operands, attributes, (result,), cell, source)
                before = result


class ViewFinder:
    """Finds the tensors of the module that a file has in other layouts.

    Args:
        file: the values of the file's program.
        in_any_order: whether what lies along one axis may have any other order.
    """

    def __init__(self, file: FileValues, *, in_any_order: bool = False) -> None:
        self.file = file
        self.in_any_order = in_any_order
        stored = set(file.flat.program.constant_data)
        self.names = Namespace((value.name for value in (*stored, *file.values)), first=1)
        self.of_shape: dict[tuple[int, ...], list[Value]] = {}
        self.of_size: dict[int, list[Value]] = {}
        self.norms: dict[Value, float] = {}
        for value in file.rank:
            array = self._arrays(value)[0]
            if value not in stored and array.dtype.kind == "f" and has_known_sizes(value):
                self.of_shape.setdefault(array.shape, []).append(value)
                self.of_size.setdefault(array.size, []).append(value)
                self.norms[value] = float(np.linalg.norm(array))
        self.of_stored = set(stored)
        """What is stored, and what is computed from that alone or from nothing, as a state of zeros."""
        for node in file.flat.program.nodes:
            is_drawn = get(node.op).traits.draws
            if not is_drawn and all(value is None or value in self.of_stored for value in node.inputs):
                self.of_stored.update(node.outputs)
        self.agreeing: dict[Value, Crossing] = {}
        self.passed: set[Value] = set()
        self.known: dict[Layout, None] = {}
        self.views: dict[tuple[Value, Layout], View] = {}
        self.supposed: set[Value] = set()

    def find(self, tensors: Sequence[Crossing]) -> list[Crossing]:
        """Find the tensors that agree in another layout; return those that don't agree in any.

        A tensor of which the file has a copy as it is belongs where the copy was made, too, if other nodes use the
        value there: only there, its gradient is whole. So does one that is copied from a tensor that the module
        computes after it: a mean over pixels with axes of one element, which the file drops first and adds later.
        """
        copies: dict[Crossing, Value] = {}
        equal = EqualArrays((value, self._arrays(value)) for values in self.of_shape.values() for value in values)
        missing: list[Crossing] = []
        for tensor in tensors:
            if tensor.can_have_a_place:
                same = equal.find(tensor.arrays)
                self.agreeing |= {value: tensor for value in same if value not in self.agreeing}
                if same:
                    copies[tensor] = same[0]
                elif not any(self._is_nearly(value, tensor) for value in self.of_shape.get(tensor.shape, ())):
                    missing.append(tensor)
        for tensor, value in copies.items():
            origins = origins_of(self.file, value)
            if origins and (self._is_shared(origins[-1]) or self._is_after(tensor, origins)):
                self._add_if_it_agrees(tensor, origins[-1])
        return [tensor for tensor in missing if not self._has_layout(tensor)]

    def _is_nearly(self, value: Value, tensor: Crossing) -> bool:
        """Whether a value is a tensor but for weights that were rounded."""
        norm = float(np.linalg.norm(tensor.arrays[0]))
        return (
            abs(self.norms[value] - norm) <= SIMILAR * norm and distance(self._arrays(value), tensor.arrays) <= ROUNDED
        )

    def at_origins(self, places: Mapping[Crossing, Value]) -> dict[Crossing, Value]:
        """Give views to the origins of wrong values that are copies, if other nodes use the origins, too.

        A block with channels last adds its residual to the origin; only the copy for its convolution is laid out as in
        the module. Where the numbers are right, `find` gives such a view.

        Args:
            places: the places of tensors that were found.

        Returns:
            The places of these tensors in the views.
        """
        taken, in_views = set(places.values()), dict[Crossing, Value]()
        for tensor, value in places.items():
            origins = origins_of(self.file, value)
            is_free = origins and taken.isdisjoint(origins) and self._is_shared(origins[-1])
            if not is_free or not tensor.can_have_a_place or distance(self.file.values[value], tensor.arrays) <= EXACT:
                continue
            layout = find_layout(self.file.values[origins[-1]], self.file.values[value], self.known)
            if layout is not None:
                self._add(origins[-1], layout)
                in_views[tensor] = self.views[origins[-1], layout].steps[-1]
        return in_views

    def suppose(self, tensors: Sequence[Crossing]) -> None:
        """Add views of values that agree with no tensor: after a wrong value, nothing does.

        Their layouts are those of other tensors, whose order of features may be that of more or fewer heads, too; and
        orders of axes, and joined axes before that of features, between which the program itself changes.
        """
        permutations = {layout.permutation for layout in self.known if layout.exchanges_axes}
        joined: set[tuple[tuple[Dim, ...], tuple[Dim, ...]]] = set()
        for node in self.file.flat.program.nodes:
            if node.op == "transpose":
                permutation = node.attributes["permutation"]
                permutations |= {tuple(permutation), tuple(int(axis) for axis in np.argsort(permutation))}
            elif node.op == "reshape" and node.inputs[0] is not None:
                ends = node.inputs[0].shape[:-1], node.outputs[0].shape[:-1]
                joined |= {ends, ends[::-1]}
        orders = sorted({layout.order_of_features for layout in self.known if not layout.exchanges_axes} - {()})
        layouts: dict[Layout, None] = {}
        for target in dict.fromkeys(tensor.shape for tensor in tensors):
            for source in self.of_shape:
                same = [layout for layout in self.known if (layout.source, layout.target) == (source, target)]
                features = [*source[-1:], *target[-1:]]
                plain = [x for x in plain_layouts(source, target) if x.exchanges_axes and x.permutation in permutations]
                if len(set(features)) == 1 and (source[:-1], target[:-1]) in joined:
                    plain += [x for x in plain_layouts(source, target) if not x.exchanges_axes]
                layouts |= dict.fromkeys(same or plain)
            of_size = (order for order in orders if target[-1:] == (len(order),))
            layouts |= dict.fromkeys(with_features_in_order(target, order) for order in of_size)
        agreeing = self.agreeing.keys() | self.passed
        free = {shape: [v for v in values if v not in agreeing] for shape, values in self.of_shape.items()}
        possible = [(value, x) for x in layouts for value in free.get(x.source, ())]
        for value, layout in possible[:MOST_SUPPOSED]:
            self._add(value, layout)
            self.supposed.update(self.views[value, layout].steps)

    def _arrays(self, value: Value) -> Arrays:
        """Return a value as it is used: the module's tensor, where that is in its place."""
        return self.file.fed.get(value) or self.file.values[value]

    def _has_layout(self, tensor: Crossing) -> bool:
        """Whether a value agrees with a tensor in some layout; it then gets a view."""
        norm = float(np.linalg.norm(tensor.arrays[0]))
        similar = [
            value
            for value in self.of_size.get(tensor.arrays[0].size, [])
            if abs(self.norms[value] - norm) <= SIMILAR * norm
        ]
        for value in similar:
            last = self._last_equal(value)
            if self._add_if_it_agrees(tensor, last):
                self.passed.add(value)  # it may be the last one
                if len({key[:2] for key in tensor.keys}) > 1:
                    self._add_to_equal(tensor, last, similar)
                return True
        return False

    def _add_to_equal(self, tensor: Crossing, value: Value, others: Sequence[Value]) -> None:
        """Give the views of a value to those that the file computes anew, for other Cells that are given the tensor."""
        after = self.file.flat.after
        layouts = [layout for of, layout in self.views if of is value]
        for other in others:
            is_apart = other is not value and other not in after(value) and value not in after(other)
            is_equal = is_apart and distance(self._arrays(other), self._arrays(value)) <= EXACT
            if is_equal and other not in self.agreeing:
                self.agreeing[other] = tensor
                for layout in layouts:
                    self._add(other, layout)

    def _last_equal(self, value: Value) -> Value:
        """Return the last value that is computed from a value alone and has its numbers, in this layout or another one.

        A gain of 1 and a bias of 0, which are untrained, change nothing.
        """
        last, outputs = value, self.file.flat.program.outputs
        while value not in outputs and len(nodes := self.file.flat.consumers.get(value, [])) == 1:
            (following, *others), arrays = nodes[0].outputs, self._arrays(value)
            if others or following not in self.norms or following in self.agreeing:
                break
            if nodes[0].op not in COPYING:
                if self.of_stored.isdisjoint(nodes[0].inputs) or distance(self._arrays(following), arrays) > EXACT:
                    break  # a gradient may be stopped, which isn't a part of the Cell
                last = following
            value = following
        return last

    def _add_if_it_agrees(self, tensor: Crossing, value: Value) -> bool:
        layout = find_layout(self._arrays(value), tensor.arrays, self.known, in_any_order=self.in_any_order)
        if layout is None and self.in_any_order:
            layout = layout_of_parts(self.file.flat.program, value, tensor.arrays, self._arrays)
        if layout is None:
            return False
        other = self.agreeing.get(value)
        is_used = tensor.trained or other is None
        is_returned = any(key.kind == OUTPUT for key in tensor.keys)  # a gradient passes what is given call by call
        if other is not None and tensor.trained and is_returned and not _is_same_gradient(other, tensor, layout):
            return False  # the file's value is another tensor of the module, whose gradient is more than this one's
        self.known[layout] = None
        self.agreeing.setdefault(value, tensor)
        self._add(value, layout, is_used=is_used)
        return True

    def _add(self, value: Value, layout: Layout, *, is_used: bool = True) -> None:
        if (value, layout) not in self.views:
            self.views[value, layout] = View.of(value, layout, self.names, is_used=is_used)

    def _is_shared(self, value: Value) -> bool:
        return len(self.file.flat.consumers.get(value, [])) > 1

    def _is_after(self, tensor: Crossing, values: Sequence[Value]) -> bool:
        """Whether one of these values is a tensor that the module computes after another one."""
        return any(self.agreeing[value].order > tensor.order for value in values if value in self.agreeing)


def _is_same_gradient(tensor: Crossing, other: Crossing, layout: Layout) -> bool:
    """Whether all of a tensor's gradient comes from another one that is computed from it by a change of layout."""
    if tensor.gradient is None or other.gradient is None or tensor.gradient.shape != layout.source:
        return False
    return distance([layout.read(tensor.gradient)], [other.gradient]) <= EXACT


def origins_of(file: FileValues, value: Value) -> list[Value]:
    """Return the values of which a value is a copy in another layout, the last of them no copy itself."""
    origins: list[Value] = []
    while (node := file.flat.program.producers.get(value)) is not None and node.op in COPYING:
        before = node.inputs[0]
        if before is None or before not in file.rank or not has_known_sizes(before):
            break
        value = before
        origins.append(value)
    return origins


def has_known_sizes(value: Value) -> bool:
    """Whether no size of a value is a symbol."""
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
                if view.restoring:
                    current[value] = view.restoring[-1]

    read(program.inputs, 0, None)
    for node in program.nodes:
        inputs = tuple(None if value is None else current.get(value, value) for value in node.inputs)
        nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
        read(node.outputs, node.cell, node.source)
    outputs = tuple(current.get(value, value) for value in program.outputs)
    constants = (*program.constants, *(order for view in views for order in view.orders))
    return program.replace(nodes=tuple(nodes), outputs=outputs, constants=constants)


def used_views(views: Sequence[View], places: Collection[Value]) -> list[View]:
    """Return the views of which a value is a place."""
    return [view for view in views if not {*view.steps, *view.restoring}.isdisjoint(places)]
