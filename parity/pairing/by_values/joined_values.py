"""Tensors of a module that a file computes in parts: one product for queries, keys and values there, three here.

Or all heads at once there, and one head after the other here. The program gets the parts joined as a value of its own,
and what uses a part takes it from there.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Source, Value
from ....runtime.namespace import Namespace
from ...correspondence.layouts import Layout
from .meeting_uses import NO_MEETING, uses_that_meet


@dataclass(frozen=True)
class Piece:
    """A part of a tensor of the module.

    Attributes:
        part: the file's value.
        layout: how the part of the tensor is read from it.
        reading: the values that reading takes; none if the value is the part as it is.
        taken: what is taken from the tensor for it.
        restoring: the values that bringing that back into the file's layout takes.
    """

    part: Value
    layout: Layout
    reading: tuple[Value, ...]
    taken: Value
    restoring: tuple[Value, ...]

    @classmethod
    def of(cls, part: Value, layout: Layout, names: Namespace) -> Piece:
        """Return the part of a tensor that a value has in a layout."""

        def value(shape: tuple[int, ...]) -> Value:
            return Value(names.unique(f"{part.name}_part"), part.type.with_shape(shape))

        reading, restoring = (tuple(value(shape) for _, _, shape in way.steps) for way in (layout, layout.inverse))
        return cls(part, layout, reading, value(layout.target), restoring)

    @property
    def read(self) -> Value:
        """The part of the tensor."""
        return self.reading[-1] if self.reading else self.part

    @property
    def restored(self) -> Value:
        """The value that takes the place of the file's."""
        return self.restoring[-1] if self.restoring else self.taken

    def nodes(self, *, back: bool, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that read it, or those that bring it back."""
        layout, current, results = (
            (self.layout.inverse, self.taken, self.restoring) if back else (self.layout, self.part, self.reading)
        )
        for (op, attributes, _), result in zip(layout.steps, results, strict=True):
            yield Node(op, (current,), attributes, (result,), cell, source)
            current = result


@dataclass(frozen=True)
class Joined:
    """A tensor of the module that the file has in parts.

    Attributes:
        pieces: the parts, in the order in which the tensor has them.
        axis: the axis along which they are joined.
        whole: the parts joined; the tensor, or that with an axis divided into several.
        tensor: the value that the program has for the tensor.
        again: the tensor in the shape of the whole.
        has_all_uses: whether all that uses a part takes it from the tensor, also what doesn't meet the other parts.
        copies: values that have elements of a part in other places, of the restored part. They are the same in every
            program that is made with the tensor, since one may be the place of another tensor.
    """

    pieces: tuple[Piece, ...]
    axis: int
    whole: Value
    tensor: Value
    again: Value
    has_all_uses: bool = False
    copies: dict[Value, Value] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        parts: Sequence[tuple[Value, Layout]],
        axis: int,
        shape: tuple[int, ...],
        names: Namespace,
        *,
        has_all_uses: bool = False,
    ) -> Joined:
        """Return the values, each with the layout of its part of the tensor, joined to a tensor of a shape."""
        first, like = parts[0]
        size = sum(layout.target[axis] for _, layout in parts)
        wide = (*like.target[:axis], size, *like.target[axis + 1 :])

        def value(of_shape: tuple[int, ...]) -> Value:
            return Value(names.unique(f"{first.name}_joined"), first.type.with_shape(of_shape))

        whole = value(wide)
        tensor, again = (whole, whole) if wide == shape else (value(shape), value(wide))
        pieces = tuple(Piece.of(part, layout, names) for part, layout in parts)
        return cls(pieces, axis, whole, tensor, again, has_all_uses)

    @property
    def added(self) -> tuple[Value, ...]:
        """The values that a program gets with the tensor, of which each may be the place of another one."""
        of_pieces = (value for piece in self.pieces for value in (*piece.reading, piece.taken, *piece.restoring))
        return self.whole, self.tensor, self.again, *of_pieces, *self.copies.values()

    @property
    def parts(self) -> tuple[Value, ...]:
        """The file's values."""
        return tuple(piece.part for piece in self.pieces)

    @property
    def restored(self) -> tuple[Value, ...]:
        """For each of the file's values, the value that takes its place."""
        return tuple(piece.restored for piece in self.pieces)

    def nodes(self, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that join the parts and take them out again."""
        for piece in self.pieces:
            yield from piece.nodes(back=False, cell=cell, source=source)
        read = tuple(piece.read for piece in self.pieces)
        yield Node("concat", read, {"axis": self.axis}, (self.whole,), cell, source)
        if self.tensor is not self.whole:
            yield Node("reshape", (self.whole,), {"shape": self.tensor.shape}, (self.tensor,), cell, source)
            yield Node("reshape", (self.tensor,), {"shape": self.again.shape}, (self.again,), cell, source)
        start = 0
        for piece in self.pieces:
            size = piece.layout.target[self.axis]
            bounds = {"starts": (start,), "stops": (start + size,), "steps": (1,), "axes": (self.axis,)}
            yield Node("slice", (self.again,), bounds, (piece.taken,), cell, source)
            yield from piece.nodes(back=True, cell=cell, source=source)
            start += size


def with_joined(program: Program, joined: Sequence[Joined]) -> Program:
    """Return a program that joins these values."""
    for tensor in joined:
        program = _with_tensor(program, tensor)
    return program


def _with_tensor(program: Program, joined: Joined) -> Program:
    """Return a program with a tensor; what its parts are computed from, as steps of a recurrence, is left as it is.

    Where uses of the parts meet, what else uses a part doesn't take it from the tensor, which has less of its gradient.
    """
    restored = dict(zip(joined.parts, joined.restored, strict=True))
    meeting = NO_MEETING if joined.has_all_uses else uses_that_meet(program, joined.parts)
    names = program.new_names()
    before: set[Value | None] = set(joined.parts)
    earlier: set[Node] = set()
    for node in reversed(program.nodes):
        if not before.isdisjoint(node.outputs):
            before.update(node.inputs)
            earlier.add(node)

    def replaced(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
        return tuple(None if value is None else restored.get(value, value) for value in values)

    nodes: list[Node] = []
    copied: set[Value] = set()

    def taken(value: Value) -> Value:
        """Add the nodes that move the elements of a part, for those of the restored one; return the value."""
        node = program.producers.get(value)
        if value in restored or value not in meeting.moved or node is None:
            return restored.get(value, value)
        copy = joined.copies.get(value) or Value(names.unique(f"{value.name}_again"), value.type)
        if value not in copied:
            copied.add(value)
            inputs = tuple(None if operand is None else taken(operand) for operand in node.inputs)
            nodes.append(Node(node.op, inputs, node.attributes, (copy,), node.cell, node.source))
        joined.copies[value] = copy
        return copy

    missing = set(joined.parts) - {*program.inputs}
    if not missing:
        nodes += joined.nodes(0, None)
    for n in program.nodes:
        if n in earlier or (meeting.uses and n not in meeting.uses):
            inputs = n.inputs
        elif meeting.uses:
            inputs = tuple(None if value is None else taken(value) for value in n.inputs)
        else:
            inputs = replaced(n.inputs)
        nodes.append(Node(n.op, inputs, n.attributes, n.outputs, n.cell, n.source))
        if missing and not missing.isdisjoint(n.outputs):
            missing.difference_update(n.outputs)
            if not missing:
                nodes += joined.nodes(n.cell, n.source)
    ordered = _in_order(nodes, {*program.inputs, *program.constant_data})
    if missing or ordered is None:
        return program
    outputs = program.outputs if meeting.uses else tuple(restored.get(value, value) for value in program.outputs)
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
