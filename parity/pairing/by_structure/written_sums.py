"""Sums with stored tensors, brought to the place where a layer has them.

A bias of (heads, size) that is added to a product divided into heads is a vector that is added to the product itself.
A sum of two stored tensors that is added to data, such as positions of rows and of columns, is two sums. A stored table
that is added to one of several data, such as positions between words and kinds of words, is added to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Type, Value
from ....runtime.ops.registry import evaluate, get
from ...sides.records import Array
from .joined_sums import with_sums_before_joins
from .rewriting import MOVES, Rewriting, consumers_of, dependent_values, shape_of


def with_sums_at_layers(program: Program) -> Program:
    """Return a program in which biases follow their products at once, and each sum adds one stored tensor.

    Tables are added to a sum of data last.
    """
    return _Tables(_Biases(with_sums_before_joins(_Sums(program).program())).program()).program()


class _Sums(Rewriting):
    """Divides sums with sums of stored tensors."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.dependent = dependent_values(program)
        for node in program.nodes:
            self._divide(node)

    def _divide(self, node: Node) -> None:
        """Add a node, or the two sums that it is."""
        data = [value for value in node.inputs if value is not None and value not in self.static]
        operands = [value for value in node.inputs if value is not None and value in self.static]
        if node.op == "add" and len(data) == len(operands) == 1:
            moves, parts = self._parts(operands[0])
            if parts and data[0].shape == node.outputs[0].shape:
                x = data[0]
                for number, part in enumerate(parts, 1):
                    added = self._moved(part, moves)
                    x = self.add(node, "add", (x, added), node.outputs[0] if number == len(parts) else x.type)
                return
        self.nodes.append(node)

    def _parts(self, value: Value) -> tuple[list[Node], list[Value]]:
        """Return the moves behind a sum of stored tensors, the last one first, and these; nothing if it is none."""
        moves: list[Node] = []
        producer = self.before.producers.get(value)
        while producer is not None and producer.op in MOVES:
            moves.append(producer)
            (operand,) = producer.inputs
            producer = None if operand is None else self.before.producers.get(operand)
        if producer is None or producer.op != "add":
            return [], []
        shape = producer.outputs[0].shape
        parts = [value for value in producer.inputs if value is not None and value in self.dependent]
        if len(parts) < 2:
            return [], []
        return moves, [
            part
            if part.shape == shape
            else self.add(producer, "expand", (part,), part.type.with_shape(shape), shape=shape)
            for part in parts
        ]

    def _moved(self, value: Value, moves: Sequence[Node]) -> Value:
        for move in reversed(moves):
            value = self.add(move, move.op, (value,), move.outputs[0].type, **move.attributes)
        return value


class _Biases(Rewriting):
    """Brings biases to their products."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.consumers = consumers_of(program)
        self.dependent = dependent_values(program)
        for node in program.nodes:
            product = self._product_of(node)
            order = None if product is None else self._order(node, *product)
            if product is None or order is None:
                self.nodes.append(node)
                continue
            self._bring(node, *product, order)

    def _product_of(self, node: Node) -> tuple[Node, list[Node], Value] | None:
        """Return the product that a sum adds a stored tensor to, the steps between them in order, and the tensor."""
        bias = next((value for value in node.inputs if value is not None and value in self.static), None)
        data = next((value for value in node.inputs if value is not None and value not in self.static), None)
        if node.op != "add" or bias is None or data is None or bias not in self.dependent:
            return None
        path = self._path(data)
        return None if path is None or len(path) == 1 else (path[0], path[1:], bias)

    def _path(self, value: Value) -> list[Node] | None:
        """Return a product and what is done with it alone up to a value: it is moved, and data are added."""
        node = self.before.producers.get(value)
        if node is None or value in self.before.outputs or len(self.consumers[value]) != 1:
            return None
        if get(node.op).traits.products and node.inputs[1] in self.static:
            return [node]
        if node.op not in (*MOVES, "add") or (node.op == "add" and self._adds_stored(node)):
            return None
        for operand in reversed(node.inputs):
            if (
                operand is not None
                and operand not in self.static
                and (node.op != "add" or operand.shape == value.shape)
            ):
                path = self._path(operand)
                if path is not None:
                    return [*path, node]
        return None

    def _adds_stored(self, node: Node) -> bool:
        return any(value in self.static and value in self.dependent for value in node.inputs if value is not None)

    def _order(self, node: Node, product: Node, steps: Sequence[Node], bias: Value) -> Array | None:
        """Return the element of a stored operand that is added to each feature of a product; None if that isn't so."""
        shape = shape_of(product.outputs[0])
        along = [1] * len(shape)
        along[self._feature_axis(product)] = -1
        size = shape[self._feature_axis(product)]
        features: Array = np.broadcast_to(np.arange(float(size)).reshape(along), shape)
        for step in steps:
            if step.op != "add":
                (features,) = evaluate(get(step.op), [features], step.attributes, (step.outputs[0].type,))
        elements = np.arange(int(np.prod(shape_of(bias), dtype=int))).reshape(shape_of(bias))
        if features.shape != shape_of(node.outputs[0]):
            return None
        flat, added = features.reshape(-1).astype(np.int64), np.broadcast_to(elements, features.shape).reshape(-1)
        order = np.empty(size, np.int64)
        order[flat] = added
        return order if len(order) == elements.size and np.array_equal(order[flat], added) else None

    def _feature_axis(self, product: Node) -> int:
        return 1 if product.op in ("conv", "conv_transpose") else len(product.outputs[0].shape) - 1

    def _bring(self, node: Node, product: Node, steps: Sequence[Node], bias: Value, order: Array) -> None:
        """Add the bias to the product, and move the sum."""
        size = len(order)
        vector = self.add(node, "reshape", (bias,), bias.type.with_shape((size,)), shape=(size,))
        if not np.array_equal(order, np.arange(size)):
            vector = self.add(node, "take", (vector, self.indices("order", order)), vector.type, axis=0)
        after = len(product.outputs[0].shape) - 1 - self._feature_axis(product)
        vector = self.reshaped(node, vector, (size, *([1] * after)))
        before, x = product.outputs[0], self.add(node, "add", (product.outputs[0], vector), product.outputs[0].type)
        for number, step in enumerate(steps, 1):
            result = node.outputs[0] if number == len(steps) else step.outputs[0].type
            x = self.add(step, step.op, tuple(x if v is before else v for v in step.inputs), result, **step.attributes)
            before = step.outputs[0]
        self.nodes = [kept for kept in self.nodes if kept not in steps]


class _Tables(Rewriting):
    """Adds stored tables, which vary along several axes, to the sums of data in which they are."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.consumers = consumers_of(program)
        self.dependent = dependent_values(program)
        self.tables: dict[Value, tuple[Value, Value]] = {}
        """Sums that only a sum uses: the data and the table."""
        for node in program.nodes:
            if node.op == "add":
                self._add_sum(node, node.inputs, node.outputs[0])
            else:
                self.nodes.append(node)
        used = {value for node in self.nodes for value in node.inputs}
        self.nodes = [n for n in self.nodes if self.tables.keys().isdisjoint(n.outputs) or n.outputs[0] in used]

    def _add_sum(self, node: Node, operands: Sequence[Value | None], result: Value | Type) -> Value:
        """Add a sum with the table of one operand last."""
        for data, other in (operands, operands[::-1]):
            if data in self.tables and other not in self.static and other is not None and data.shape == other.shape:
                x, table = self.tables[data]
                operands = (self._add_sum(node, (x, other), data.type), table)
                break
        total = self.add(node, "add", tuple(operands), result)
        is_part = isinstance(result, Type) or self._is_part(total)
        for data, added in (operands, operands[::-1]):
            if data is None or data in self.static or data.shape != total.shape:
                continue
            if is_part and self._is_table(added):
                self.tables[total] = (data, added)
        return total

    def _is_table(self, value: Value | None) -> TypeGuard[Value]:
        return value in self.static and value in self.dependent and sum(size != 1 for size in shape_of(value)) > 1

    def _is_part(self, value: Value) -> bool:
        following = self.consumers.get(value, [])
        return len(following) == 1 and following[0].op == "add" and value not in self.before.outputs
