"""Units: the places of a network where a stored tensor meets data, a weight and the bias behind it as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ....runtime.ir.types import Node, Value
from ...sides.records import Array
from .network import Network
from .rewriting import VECTORS, shape_of

MATRIX, TABLE, VECTOR, OTHER = "matrix", "table", "vector", "other"


@dataclass(eq=False)
class Unit:
    """A place where a stored tensor meets data.

    Attributes:
        number: its position among the units of its network.
        node: the node.
        position: which operand is stored.
        kind: what the node does: a product with a matrix, a lookup in a table, an operation on each element of a
            vector, or something else.
        data: the operand that depends on the inputs; None if there is none.
        bias: the sum behind a product, and which of its operands is stored.
        path: path of the Cell that the node belongs to.
    """

    number: int
    node: Node
    position: int
    kind: str
    data: Value | None
    bias: tuple[Node, int] | None = None
    path: str = ""
    nodes: tuple[Node, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = (self.node,) if self.bias is None else (self.node, self.bias[0])

    @property
    def operand(self) -> Value:
        """The stored operand."""
        value = self.node.inputs[self.position]
        assert value is not None, "a unit has it"
        return value

    @property
    def bias_operand(self) -> Value | None:
        """The stored operand of the sum."""
        return None if self.bias is None else self.bias[0].inputs[self.bias[1]]

    @property
    def product(self) -> Value:
        """What the node computes."""
        return self.node.outputs[0]

    @property
    def output(self) -> Value:
        """What the unit computes."""
        return self.nodes[-1].outputs[0]

    @property
    def feature_axis(self) -> int:
        """The axis of the product along which each feature has its own row of the matrix."""
        if self.node.op in ("conv", "conv_transpose"):
            return 1
        rank = len(self.product.shape)
        return rank - 2 if self.node.op == "matmul" and self.position == 0 else rank - 1

    @property
    def data_axis(self) -> int | None:
        """The axis of the data along which each feature has its own column of the matrix."""
        if self.kind != MATRIX or self.data is None:
            return None
        if self.node.op in ("conv", "conv_transpose"):
            return 1
        rank = len(self.data.shape)
        return rank - 2 if self.node.op == "matmul" and self.position == 0 else rank - 1

    @property
    def features(self) -> Array:
        """The number of the feature that each element of what the unit computes is one of."""
        shape = shape_of(self.output)
        along = [1] * len(shape)
        along[self.feature_axis] = -1
        return np.broadcast_to(np.arange(self.size).reshape(along), shape)

    def canonical(self, array: Array) -> Array:
        """Return numbers of the stored operand with its features along the first axis, and its columns after them."""
        op = self.node.op
        if op == "conv_transpose" or (op == "matmul" and self.position == 1 and array.ndim > 1):
            return array.swapaxes(-1, -2) if op == "matmul" else array.swapaxes(0, 1)
        if self.kind == TABLE:
            return array.reshape(1, -1) if array.ndim == 1 else np.moveaxis(array, 0, -1)
        if self.kind in (VECTOR, OTHER):
            return without_copies(array)
        return array

    @cached_property
    def size(self) -> int:
        """Number of features; of vectors, of elements."""
        shape = [int(str(dim)) for dim in self.operand.shape]
        if self.kind in (MATRIX, TABLE):
            return int(self.canonical(np.empty(shape, np.int8)).shape[0])
        return int(np.prod(shape))


def units_of(network: Network) -> list[Unit]:
    """Return the units of a network in order."""
    units: list[Unit] = []
    biases: set[Node] = set()
    program = network.program
    for node in program.nodes:
        if node in biases or not node.outputs or node.outputs[0] in network.static:
            continue
        stored = [p for p, v in enumerate(node.inputs) if v is not None and network.names_in.get(v)]
        data = [v for v in node.inputs if v is not None and v not in network.static]
        for position in stored:
            kind = _kind(node, position)
            path = program.calls[node.cell].path
            bias = _bias(network, node) if kind in (MATRIX, TABLE) else None
            if bias is not None:
                biases.add(bias[0])
            units.append(Unit(len(units), node, position, kind, data[0] if data else None, bias, path))
    return units


def _kind(node: Node, position: int) -> str:
    weight = node.inputs[position]
    assert weight is not None, "it is a stored operand"
    if node.op in ("conv", "conv_transpose", "linear") and position == 1:
        return MATRIX
    if node.op == "matmul" and len(weight.shape) == 2:
        return MATRIX
    if node.op in ("embedding", "take") and position == 0:
        return TABLE
    return VECTOR if node.op in VECTORS and len(node.inputs) == 2 else OTHER


def _bias(network: Network, node: Node) -> tuple[Node, int] | None:
    """Return the sum that alone uses a product, and adds a stored vector to it."""
    consumers = network.consumers.get(node.outputs[0], [])
    if len(consumers) != 1 or consumers[0].op != "add" or node.outputs[0] in network.program.outputs:
        return None
    (following,) = consumers
    for position, value in enumerate(following.inputs):
        if value is not None and network.names_in.get(value) and following.inputs[1 - position] is node.outputs[0]:
            sizes = [dim for dim in value.shape if dim != 1]
            is_vector = len(sizes) <= 1 and node.op not in ("embedding", "take")
            return (following, position) if is_vector else None
    return None


def without_copies(array: Array) -> Array:
    """Return numbers without axes along which they repeat, and without axes of size 1."""
    for axis in reversed(range(array.ndim)):
        first = array.take([0], axis)
        if array.shape[axis] == 1 or np.array_equal(np.broadcast_to(first, array.shape), array):
            array = array.take(0, axis)
    return array
