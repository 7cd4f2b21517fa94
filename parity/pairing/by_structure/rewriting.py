"""A program with some of its nodes replaced by others that compute the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.program import Program
from ....runtime.ir.types import Constant, Node, Type, Value
from ....runtime.ops.registry import evaluate, get
from ...sides.records import Array

VECTORS = ("mul", "add", "sub", "div")
"""Operations with one number for each channel, or for each element."""
MOVES = ("reshape", "transpose")
STANDARDS = ("layer_norm", "rms_norm", "group_norm")


class Rewriting:
    """Nodes that are put together anew.

    Args:
        program: the program as it is.

    Attributes:
        nodes: the nodes so far.
        static: the values of the program that don't depend on its inputs.
    """

    def __init__(self, program: Program) -> None:
        self.before = program
        self.names = program.new_names()
        self.nodes: list[Node] = []
        self.constants = list(program.constants)
        self.static = static_values(program)

    def program(self) -> Program:
        """Return the new program."""
        return self.before.replace(nodes=tuple(self.nodes), constants=tuple(self.constants))

    def origins_among(self, stored: Iterable[Value]) -> dict[Value, frozenset[Value]]:
        """Return those of some stored tensors that each static value is computed from, themselves included."""
        origins = {value: frozenset((value,)) for value in stored}
        for node in self.before.nodes:
            if node.outputs and node.outputs[0] in self.static:
                values = [origins[value] for value in node.inputs if value in origins]
                origins.update(dict.fromkeys(node.outputs, frozenset[Value]().union(*values)))
        return origins

    def add(
        self, node: Node, op: str, inputs: tuple[Value | None, ...], result: Value | Type, **attributes: Any
    ) -> Value:
        """Add a node in place of another one; a result that is a type is a new value."""
        if isinstance(result, Type):
            result = Value(self.names.unique(f"{node.outputs[0].name} {op}"), result)
        self.nodes.append(Node(op, inputs, attributes, (result,), node.cell, node.source))
        return result

    def computed(self, value: Value | None, known: dict[Value, Array]) -> Array | None:
        """Return a static value; `known` holds numbers in place of stored ones, and what is computed from them."""
        if value is None:
            return None
        if value not in known:
            node = self.before.producers.get(value)
            if node is None:
                return np.asarray(self.before.constant_data[value])
            operands = [self.computed(operand, known) for operand in node.inputs]
            types = tuple(output.type for output in node.outputs)
            known.update(zip(node.outputs, evaluate(get(node.op), operands, node.attributes, types), strict=True))
        return known[value]

    def constant(self, name: str, number: float, like: Value) -> Value:
        """Return a number as a value, in the dtype of another one."""
        value = Value(self.names.unique(name), Type(like.dtype, ()))
        self.constants.append(Constant(value, np.asarray(number, like.dtype)))
        return value

    def indices(self, name: str, numbers: Array) -> Value:
        """Return whole numbers as a value."""
        value = Value(self.names.unique(name), Type(np.dtype(np.int64), numbers.shape))
        self.constants.append(Constant(value, numbers.astype(np.int64)))
        return value

    def reshaped(self, node: Node, vector: Value, shape: tuple[int, ...]) -> Value:
        """Return a vector in a shape that is broadcast."""
        if vector.shape == shape or len(shape) <= len(vector.shape):
            return vector
        return self.add(node, "reshape", (vector,), vector.type.with_shape(shape), shape=shape)


def static_values(program: Program) -> frozenset[Value]:
    """Return the values that don't depend on the inputs."""
    known = {*program.constant_data}
    for node in program.nodes:
        if all(value is None or value in known for value in node.inputs):
            known.update(node.outputs)
    return frozenset(known)


def dependent_values(program: Program) -> set[Value]:
    """Return the values that depend on a parameter."""
    dependent = {item.value for item in program.parameters.values()}
    for node in program.nodes:
        if not dependent.isdisjoint(value for value in node.inputs if value is not None):
            dependent.update(node.outputs)
    return dependent


def products_of_static(program: Program, static: Collection[Value]) -> set[Value]:
    """Return the values that don't depend on the inputs, and that a product or a standardization has a part in."""
    deep: set[Value] = set()
    for node in program.nodes:
        is_step = get(node.op).traits.products or node.op in STANDARDS
        if is_step or not deep.isdisjoint(value for value in node.inputs if value is not None):
            deep.update(value for value in node.outputs if value in static)
    return deep


def consumers_of(program: Program) -> dict[Value, list[Node]]:
    """Return the nodes that use each value, in order."""
    consumers: dict[Value, list[Node]] = {}
    for node in program.nodes:
        for value in dict.fromkeys(value for value in node.inputs if value is not None):
            consumers.setdefault(value, []).append(node)
    return consumers


def varying_axis(shape: Sequence[Dim], operand_shape: Sequence[Dim]) -> int | None:
    """Return the only axis of a shape along which an operand that is broadcast to it varies; None if there is none."""
    lacking = len(shape) - len(operand_shape)
    axes = [axis + lacking for axis, size in enumerate(operand_shape) if size != 1]
    return axes[0] if len(axes) == 1 else None


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the shape of a value of known sizes."""
    return tuple(int(str(dim)) for dim in value.shape)
