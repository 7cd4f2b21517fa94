"""Elements in another order along an axis: told by what is joined in that order, or by the weights that meet them.

Two sides are laid beside each other by values in the order of the reference's, at the boundary of each Cell. Nobody
wrote the nodes that bring them in it and back, so that they are no cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.tracing import Builder, SymbolicTensor
from ..sides.records import Array
from .cell_program import CellProgram
from .fixed_values import without_unused
from .rebuilding import Operands, Results, append, keep, rebuild

Tensors = Mapping[Value, SymbolicTensor]


@dataclass(frozen=True)
class Order:
    """All elements of a value along one axis, in another order.

    Attributes:
        value: the value.
        axis: the axis, from 0.
        order: for each element, its position in the value.
    """

    value: Value
    axis: int
    order: Array


@dataclass(frozen=True)
class Part:
    """One of several joined values in another order of them.

    Attributes:
        value: the value.
        start: where it begins in that order.
        order: the order of its own elements.
    """

    value: Value
    start: int
    order: Array


def without_orders(cell: CellProgram) -> CellProgram:
    """Return a Cell that joins parts in another order instead of what is joined, and takes columns instead of features.

    Raises:
        CellbridgeError: types don't fit.
    """
    program = cell.program
    tensors: dict[Value, SymbolicTensor] = {}

    def rule(builder: Builder, position: int, node: Node, operands: Operands) -> Results:
        tensors.update({v: x for v, x in zip(node.inputs, operands, strict=True) if v is not None and x is not None})
        results: Results | None = None
        if node.op == "take":
            results = _joined(builder, program, node, tensors)
        elif node.op == "linear":
            results = _linear(builder, program, node, tensors)
        return results or keep(builder, position, node, operands)

    return replace(cell, program=without_unused(rebuild(program, rule)))


def _joined(builder: Builder, program: Program, node: Node, tensors: Tensors) -> Results | None:
    """Return what a node takes of joined parts as these parts in another order, or a value that it brings back.

    It is None for parts that it mixes.
    """
    taken = _order_of(program, node.outputs[0])
    if taken is not None and np.array_equal(taken.order, np.arange(len(taken.order))):
        return (tensors[taken.value],)
    parts = None if taken is None else _parts(program, taken)
    if taken is None or parts is None:
        return None
    ordered: Operands = []
    for part in parts:
        producer = program.producers.get(part.value)
        with builder.at(node.cell, None if producer is None else producer.source):
            ordered.append(_take(builder, tensors[part.value], part.order, taken.axis))
    with builder.at(node.cell, program.producers[taken.value].source):
        return append(builder, "concat", ordered, {"axis": taken.axis})


def _linear(builder: Builder, program: Program, node: Node, tensors: Tensors) -> Results | None:
    """Return a product of features, or with columns, in another order; None for one of features as they are.

    Features are joined in the order of the columns, as far as they are parts, and the columns are brought in theirs.
    """
    x, weight, bias = node.inputs
    assert x is not None
    assert weight is not None
    features, columns = _order_of(program, x), _order_of(program, weight)
    features = features if features is not None and features.axis == x.type.rank - 1 else None
    columns = columns if columns is not None and columns.axis == 1 else None
    if features is None and columns is None:
        return None
    own = np.arange(_size(x, x.type.rank - 1))
    order = (own if features is None else features.order)[np.argsort(own if columns is None else columns.order)]
    taken = Order(x if features is None else features.value, x.type.rank - 1, order)
    tensor = tensors[taken.value]
    if parts := _parts(program, taken):
        with builder.at(node.cell, program.producers[taken.value].source):
            joined = append(builder, "concat", [tensors[part.value] for part in parts], {"axis": taken.axis})
        tensor, order = joined[0], np.concatenate([part.start + part.order for part in parts])
    with builder.at(node.cell, None):  # nobody wrote it
        matrix = _take(builder, tensors[weight if columns is None else columns.value], np.argsort(order), 1)
    return append(builder, "linear", [tensor, matrix, None if bias is None else tensors[bias]], node.attributes)


def _take(builder: Builder, x: SymbolicTensor, order: Array, axis: int) -> SymbolicTensor:
    if np.array_equal(order, np.arange(len(order))):
        return x
    return append(builder, "take", [x, builder.constant(order, "int64")], {"axis": axis})[0]


def _order_of(program: Program, value: Value) -> Order | None:
    """Return what a value is another order of, by one node or several; None if it is none."""
    node = program.producers.get(value)
    if node is None or node.op != "take" or node.inputs[0] is None or node.inputs[1] is None:
        return None
    x, order = node.inputs[0], program.constant_data.get(node.inputs[1])
    axis = node.attributes["axis"] % x.type.rank
    is_order = order is not None and order.ndim == 1 and np.array_equal(np.sort(order), np.arange(_size(x, axis)))
    if order is None or not is_order:
        return None
    before = _order_of(program, x)
    return (
        Order(x, axis, order) if before is None or before.axis != axis else replace(before, order=before.order[order])
    )


def _parts(program: Program, taken: Order) -> list[Part] | None:
    """Return the values that are joined along the axis of an order, in it; None if it mixes them."""
    join = program.producers.get(taken.value)
    if join is None or join.op != "concat" or join.attributes["axis"] % taken.value.type.rank != taken.axis:
        return None
    parts: list[Part] = []
    start = 0
    for value in join.inputs:
        assert value is not None
        size = _size(value, taken.axis)
        places = np.flatnonzero((taken.order >= start) & (taken.order < start + size))
        if not np.array_equal(places, places[:1] + np.arange(size)):
            return None
        parts.append(Part(value, int(places[0]), taken.order[places] - start))
        start += size
    return sorted(parts, key=lambda part: part.start)


def _size(value: Value, axis: int) -> int:
    sizes = value.type.sizes
    assert sizes is not None
    return sizes[axis]
