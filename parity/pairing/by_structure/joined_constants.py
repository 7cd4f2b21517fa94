"""Stored tensors that are joined with data: tokens before the patches of an image, with or without their positions.

Constants that are joined before they are joined with data are joined with them one by one. What is added to constants
and data that were joined is added to each part, so that constants which are added to each other are one sum, as a port
may store it.
"""

from __future__ import annotations

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...sides.records import Array
from ...weights.computed import Computed
from ..by_values.sliced_joins import with_slices_of_parts
from .joined_sums import adds_to_constants, with_sums_before_joins
from .network import Network
from .rewriting import Rewriting, dependent_values, shape_of
from .sources import Sources

MOST_SUMS = 1 << 24
"""The most elements of a sum of two stored tensors."""


def with_constants_apart(program: Program, other: Program) -> Program:
    """Return a program of known sizes that joins each stored tensor with data by itself.

    Args:
        program: the program.
        other: the other side's; if it adds nothing to constants and data that were joined, this one doesn't, either.
    """
    if adds_to_constants(program) and not adds_to_constants(other):
        program = with_slices_of_parts(with_sums_before_joins(program, constants=True))
    return _Flat(program).program()


class _Flat(Rewriting):
    """Joins with data what was joined before."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.dependent = dependent_values(program)
        for node in program.nodes:
            if node.op != "concat" or node.outputs[0] in self.static:
                self.nodes.append(node)
                continue
            axis = node.attributes["axis"] % len(node.outputs[0].shape)
            parts = [part for value in node.inputs if value is not None for part in self._parts(node, value, axis)]
            self.nodes.append(Node("concat", tuple(parts), {"axis": axis}, node.outputs, node.cell, node.source))

    def _parts(self, node: Node, value: Value, axis: int) -> list[Value]:
        """Return the stored tensors that a value is made of along an axis, or the value if it is none of several."""
        producer = self.before.producers.get(value)
        if value not in self.static or value not in self.dependent or producer is None:
            return [value]
        (operand, *others) = producer.inputs
        rank, shape = len(value.shape), shape_of(value)
        if producer.op == "concat" and producer.attributes["axis"] % rank == axis:
            return [part for v in producer.inputs if v is not None for part in self._parts(node, v, axis)]
        if producer.op not in ("expand", "reshape") or others or operand is None:
            return [value]
        before = axis - rank + len(operand.shape)  # axes before it are added or repeated alone
        if before < 0 or shape_of(operand)[before:] != shape[axis:]:
            return [value]
        parts = self._parts(node, operand, before)
        if len(parts) == 1:
            return [value]
        shapes = [(*shape[:axis], *shape_of(part)[before:]) for part in parts]
        return [
            self.add(node, producer.op, (part,), value.type.with_shape(new), **{**producer.attributes, "shape": new})
            for part, new in zip(parts, shapes, strict=True)
        ]


def numbers_of_sum(network: Network, sources: Sources, value: Value) -> Array | None:
    """Return the numbers of the elements of a sum of two stored tensors; None if a value is none.

    Args:
        network: the reference.
        sources: its stored tensors.
        value: a value that doesn't depend on the inputs.
    """
    node = network.program.producers.get(value)
    if node is None:
        return None
    if node.op in ("expand", "reshape", "transpose", "slice") and node.inputs[0] is not None:
        inner = numbers_of_sum(network, sources, node.inputs[0])
        return None if inner is None else network.moved(node, {0: inner}, [None] * len(node.inputs))
    traces = [None if operand is None else network.trace(operand) for operand in node.inputs]
    if node.op != "add" or any(trace is None or trace.signature for trace in traces):
        return None
    first, second = (trace for trace in traces if trace is not None)
    whole = [np.arange(array.size).reshape(array.shape) for array in (network.stored[t.name] for t in (first, second))]
    try:
        size = int(np.prod(np.broadcast_shapes(*(places.shape for places in whole)), dtype=int))
    except ValueError:
        return None
    if size > MOST_SUMS:
        return None
    pairs = (whole[0] * whole[1].size + whole[1]).reshape(-1)
    wanted = np.broadcast_to(first.places.astype(np.int64) * whole[1].size + second.places, shape_of(value))
    order = np.argsort(pairs)
    places = order[np.minimum(np.searchsorted(pairs[order], wanted), size - 1)]
    if not np.array_equal(pairs[places], wanted):
        return None
    computed = Computed("sum", (first.name, second.name))
    return np.asarray(sources.computed(computed) + places)
