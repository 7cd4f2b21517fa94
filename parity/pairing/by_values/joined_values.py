"""Tensors of a module that a file computes in parts: one product for queries, keys and values there, three here.

Or all heads at once there, and one head after the other here. The program gets the parts joined as a value of its own,
and what uses a part takes it from there.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Source, Value
from ....runtime.namespace import Namespace
from ...correspondence.distances import ROUNDED, distance
from .crossings import Crossing
from .file_values import FileValues
from .loop_steps import values_of_turns

PRODUCTS = ("linear", "matmul", "add", "conv")
MOST_PARTS = 4
MOST_STACKED = 64
"""The most parts without the axis along which the module has them, such as heads or experts."""


@dataclass(frozen=True)
class Joined:
    """A tensor of the module that the file has in parts.

    Attributes:
        parts: the file's values, in the order in which the tensor has them.
        axis: the axis along which they are joined.
        pieces: the parts with that axis, of size 1 if the file's values lack it; else the parts themselves.
        tensor: the value that the program has for the tensor.
        taken: what is taken from the tensor for each part, with the axis.
        restored: for each part, the value that takes its place.
    """

    parts: tuple[Value, ...]
    axis: int
    pieces: tuple[Value, ...]
    tensor: Value
    taken: tuple[Value, ...]
    restored: tuple[Value, ...]

    @classmethod
    def of(cls, parts: tuple[Value, ...], axis: int, shape: tuple[int, ...], names: Namespace) -> Joined:
        """Return the parts joined to a tensor of a shape."""

        def values(suffix: str) -> tuple[Value, ...]:
            return tuple(Value(names.unique(f"{part.name}_{suffix}"), part.type) for part in parts)

        tensor = Value(names.unique(f"{parts[0].name}_joined"), parts[0].type.with_shape(shape))
        restored = values("part")
        if len(parts[0].shape) == len(shape):
            return cls(parts, axis, parts, tensor, restored, restored)
        piece = parts[0].type.with_shape((*shape[:axis], 1, *shape[axis + 1 :]))
        pieces, taken = (tuple(Value(v.name, piece) for v in values(suffix)) for suffix in ("piece", "slice"))
        return cls(parts, axis, pieces, tensor, taken, restored)

    def nodes(self, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that join the parts and take them out again."""
        for part, piece in zip(self.parts, self.pieces, strict=True):
            if piece is not part:
                yield Node("reshape", (part,), {"shape": piece.shape}, (piece,), cell, source)
        yield Node("concat", self.pieces, {"axis": self.axis}, (self.tensor,), cell, source)
        start = 0
        for piece, taken, value in zip(self.pieces, self.taken, self.restored, strict=True):
            size = piece.shape[self.axis]
            assert isinstance(size, int), "parts have known sizes"
            bounds = {"starts": (start,), "stops": (start + size,), "steps": (1,), "axes": (self.axis,)}
            yield Node("slice", (self.tensor,), bounds, (taken,), cell, source)
            if value is not taken:
                yield Node("reshape", (taken,), {"shape": value.shape}, (value,), cell, source)
            start += size


class JoinFinder:
    """Finds the tensors of the module that agree with several values of a file, one after the other.

    Where one part is wrong, the others say which value it is: the one that is computed from the same input.

    Args:
        file: the values of the file's program.
        of_shape: those that are floating-point numbers of known sizes, by shape.
    """

    def __init__(self, file: FileValues, of_shape: Mapping[tuple[int, ...], Sequence[Value]]) -> None:
        self.file = file
        self.of_shape = of_shape
        self.names = Namespace((value.name for value in file.values), first=1)
        self.taken: set[Value] = set()

    def find(self, tensor: Crossing) -> Joined | None:
        """Return the parts of a tensor; None if the file doesn't have them."""
        for axis in reversed(range(len(tensor.shape))):
            parts = self._parts(tensor, axis) or self._stacked(tensor, axis)
            if parts is not None and self.taken.isdisjoint(parts):
                self.taken.update(parts)
                return Joined.of(parts, axis, tensor.shape, self.names)
        return None

    def suppose(self, tensor: Crossing) -> list[Joined]:
        """Return values of the turns of a loop that may be a tensor at the places along an axis.

        Behind a wrong value, no turn agrees.
        """
        joined_values: list[Joined] = []
        for axis in reversed(range(len(tensor.shape))):
            shape = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
            if 2 <= tensor.shape[axis] <= MOST_STACKED:
                for parts in values_of_turns(self.file, shape, tensor.shape[axis]):
                    if self.taken.isdisjoint(parts):
                        self.taken.update(parts)
                        joined_values.append(Joined.of(parts, axis, tensor.shape, self.names))
        return joined_values

    def _stacked(self, tensor: Crossing, axis: int) -> tuple[Value, ...] | None:
        """Return the values that are the tensor at each place along an axis."""
        if not 2 <= tensor.shape[axis] <= MOST_STACKED:
            return None
        parts: list[Value] = []
        for place in range(tensor.shape[axis]):
            pieces = [np.take(array, place, axis) for array in tensor.arrays]
            values = (v for v in self.of_shape.get(pieces[0].shape, []) if v not in parts)
            same = next((v for v in values if distance(self.file.values[v], pieces) <= ROUNDED), None)
            if same is None:
                return None
            parts.append(same)
        return tuple(parts)

    def _parts(self, tensor: Crossing, axis: int) -> tuple[Value, ...] | None:
        size = tensor.shape[axis]
        at: dict[int, Value] = {}
        for shape, values in self.of_shape.items():
            if len(shape) != len(tensor.shape) or not 0 < shape[axis] < size:
                continue
            if any(a != b for number, (a, b) in enumerate(zip(shape, tensor.shape, strict=True)) if number != axis):
                continue
            for start in range(0, size - shape[axis] + 1, shape[axis]):
                pieces = [np.take(array, range(start, start + shape[axis]), axis) for array in tensor.arrays]
                same = next((v for v in values if distance(self.file.values[v], pieces) <= ROUNDED), None)
                if same is not None:
                    at.setdefault(start, same)
        parts: list[Value | None] = []
        sizes: list[int] = []
        width = min((int(self.file.values[part][0].shape[axis]) for part in at.values()), default=size)
        start = 0
        while start < size:
            part = at.get(start)
            end = min((other for other in at if other > start), default=size)
            length = min(end - start, width) if part is None else int(self.file.values[part][0].shape[axis])
            parts.append(part)
            sizes.append(length)
            start += length
        if start != size or not 2 <= len(parts) <= MOST_PARTS or not at:
            return None
        return self._completed(parts, sizes, tensor.shape, axis)

    def _completed(
        self, parts: Sequence[Value | None], sizes: Sequence[int], shape: tuple[int, ...], axis: int
    ) -> tuple[Value, ...] | None:
        """Return the parts, with the values that may be the missing ones, in the order in which they are computed."""
        known = [part for part in parts if part is not None]
        inputs = {self._input_of(part) for part in known} - {None}
        missing = [size for part, size in zip(parts, sizes, strict=True) if part is None]
        part_shapes = {tuple(size if n == axis else own for n, own in enumerate(shape)) for size in missing}
        siblings = [
            value
            for other in part_shapes
            for value in self.of_shape.get(other, [])
            if value not in known and self._input_of(value) in inputs and self._is_last(value)
        ]
        siblings.sort(key=self.file.rank.__getitem__)
        if [self.file.values[value][0].shape[axis] for value in siblings] != missing:
            return None
        free = iter(siblings)
        return tuple(next(free) if part is None else part for part in parts)

    def _input_of(self, value: Value) -> Value | None:
        """Return what a product is computed from, also one to which a bias was added; None for other values."""
        node = self.file.flat.program.producers.get(value)
        if node is None or node.op not in PRODUCTS or node.inputs[0] is None:
            return None
        return self._input_of(node.inputs[0]) or node.inputs[0] if node.op == "add" else node.inputs[0]

    def _is_last(self, value: Value) -> bool:
        """Whether no bias is added to a product any more."""
        following = (out for node in self.file.flat.consumers.get(value, []) for out in node.outputs)
        return all(self._input_of(out) is not self._input_of(value) for out in following)


def with_joined(program: Program, joined: Sequence[Joined]) -> Program:
    """Return a program that joins these values."""
    for tensor in joined:
        program = _with_tensor(program, tensor)
    return program


def _with_tensor(program: Program, joined: Joined) -> Program:
    """Return a program with a tensor; what its parts are computed from, as steps of a recurrence, is left as it is."""
    restored = dict(zip(joined.parts, joined.restored, strict=True))
    before: set[Value | None] = set(joined.parts)
    earlier: set[Node] = set()
    for node in reversed(program.nodes):
        if not before.isdisjoint(node.outputs):
            before.update(node.inputs)
            earlier.add(node)

    def replaced(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
        return tuple(None if value is None else restored.get(value, value) for value in values)

    nodes: list[Node] = []
    missing = set(joined.parts)
    for n in program.nodes:
        inputs = n.inputs if n in earlier else replaced(n.inputs)
        nodes.append(Node(n.op, inputs, n.attributes, n.outputs, n.cell, n.source))
        if missing and not missing.isdisjoint(n.outputs):
            missing.difference_update(n.outputs)
            if not missing:
                nodes += joined.nodes(n.cell, n.source)
    ordered = _in_order(nodes, {*program.inputs, *program.constant_data})
    if missing or ordered is None:
        return program
    outputs = tuple(restored.get(value, value) for value in program.outputs)
    return program.replace(nodes=tuple(ordered), outputs=outputs)


def _in_order(nodes: Sequence[Node], known: Collection[Value]) -> list[Node] | None:
    """Return the nodes in an order in which each comes after its operands; None if there is none."""
    done = set(known)
    waiting: dict[Value, list[int]] = {}
    missing: list[int] = []
    for number, node in enumerate(nodes):
        operands = {value for value in node.inputs if value is not None and value not in done}
        missing.append(len(operands))
        for value in operands:
            waiting.setdefault(value, []).append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    ordered: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for number in (number for value in node.outputs for number in waiting.get(value, ())):
            missing[number] -= 1
            if not missing[number]:
                heapq.heappush(ready, number)
    return ordered if len(ordered) == len(nodes) else None
