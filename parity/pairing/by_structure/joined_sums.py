"""Sums with what was joined of parts: each part is added to before that, as if each had a bias of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import evaluate, get
from ...sides.records import Array
from .rewriting import MOVES, Rewriting, consumers_of, dependent_values, shape_of


def with_sums_before_joins(program: Program, constants: bool = False) -> Program:
    """Return a program of known sizes in which a stored tensor is added to data before they are joined.

    That is so where each part is given other elements of it, such as the channels of a bias whose products are apart.

    Args:
        program: the program.
        constants: whether it is where constants are joined with data, or where only data are.
    """
    return _Joined(program, constants).program()


def adds_to_constants(program: Program) -> bool:
    """Whether a stored tensor is added to constants and data that were joined, to each part other elements of it."""
    return with_sums_before_joins(program, constants=True).nodes != program.nodes


class _Joined(Rewriting):
    def __init__(self, program: Program, constants: bool) -> None:
        super().__init__(program)
        self.has_constants = constants
        self.consumers = consumers_of(program)
        self.dependent = dependent_values(program)
        for node in program.nodes:
            steps = self._steps(node)
            added = None if steps is None else self._added(node, steps)
            if steps is None or added is None:
                self.nodes.append(node)
            else:
                self._divide(node, steps, added)

    def _steps(self, node: Node) -> list[Node] | None:
        """Return the join of the data that a stored tensor is added to, and the moves behind it; None if it is none."""
        stored = [value for value in node.inputs if value in self.static and value in self.dependent]
        data = [value for value in node.inputs if value is not None and value not in self.static]
        if node.op != "add" or len(stored) != 1 or len(data) != 1 or data[0].shape != node.outputs[0].shape:
            return None
        steps: list[Node] = []
        value: Value | None = data[0]
        while value is not None and len(self.consumers[value]) == 1 and value not in self.before.outputs:
            producer = self.before.producers.get(value)
            if producer is None or producer.op not in (*MOVES, "concat"):
                return None
            steps.insert(0, producer)
            if producer.op == "concat":
                has_constants = any(part in self.static for part in producer.inputs)
                return steps if has_constants == self.has_constants else None
            value = producer.inputs[0]
        return None

    def _added(self, node: Node, steps: Sequence[Node]) -> list[Array] | None:
        """Return for each part the places of what is added to it; None if parts aren't given elements of their own."""
        joining, last = steps[0], node.outputs[0]
        (stored,) = (value for value in node.inputs if value in self.static)
        shape = shape_of(joining.outputs[0])
        places: Array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
        for step in steps[1:]:
            (places,) = evaluate(get(step.op), [places], step.attributes, (step.outputs[0].type,))
        elements = np.arange(np.prod(shape_of(stored), dtype=int)).reshape(shape_of(stored))
        of_joined = np.empty(places.size, np.int64)
        of_joined[places.reshape(-1).astype(np.int64)] = np.broadcast_to(elements, shape_of(last)).reshape(-1)
        axis = joining.attributes["axis"]
        ends = np.cumsum([shape_of(part)[axis] for part in joining.inputs if part is not None])
        of_parts = np.split(of_joined.reshape(shape), ends[:-1], axis)
        count = sum(len(np.unique(part)) for part in of_parts)
        return [_narrow(part) for part in of_parts] if count == len(np.unique(of_joined)) else None

    def _divide(self, node: Node, steps: Sequence[Node], added: Sequence[Array]) -> None:
        """Add the sums of the parts, and join and move them."""
        (stored,) = (value for value in node.inputs if value in self.static)
        assert stored is not None, "it is static"
        joining = steps[0]
        size = (int(np.prod(shape_of(stored), dtype=int)),)
        flat = self.add(node, "reshape", (stored,), stored.type.with_shape(size), shape=size)
        parts = []
        for part, places in zip(joining.inputs, added, strict=True):
            assert part is not None, "a join has no absent operand"
            vector = self.add(
                node, "take", (flat, self.indices("places", places)), flat.type.with_shape(places.shape), axis=0
            )
            parts.append(self.add(node, "add", (part, vector), part.type))
        for number, step in enumerate(steps, 1):
            result = node.outputs[0] if number == len(steps) else step.outputs[0].type
            parts = [self.add(step, step.op, tuple(parts), result, **step.attributes)]
        self.nodes = [kept for kept in self.nodes if kept not in steps]


def _narrow(places: Array) -> Array:
    """Return places with size 1 along the axes along which they repeat."""
    for axis in range(places.ndim):
        first = places.take([0], axis)
        if np.array_equal(np.broadcast_to(first, places.shape), places):
            places = first
    return places
