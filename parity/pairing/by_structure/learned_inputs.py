"""Tensors that a network computes with as with data: queries that are learned, latents, tables of distances, waves.

Nothing of an input enters what is computed from them first, so that no place would be found where a stored tensor meets
data. They are multiplied with an input of one number here, and are data then. So are constants that a stored matrix is
multiplied with.
"""

from __future__ import annotations

from ....runtime.ir.program import Program
from ....runtime.ir.types import FLOAT64, Node, Type, Value, is_floating
from .rewriting import STANDARDS, Rewriting, products_of_static

PRODUCTS = ("linear", "conv", "conv_transpose")
NUMBERS = (1.0, 1.25)
"""The input's number on the first sample, and on a second one: what doesn't differ is taken for a constant."""


def with_learned_inputs(program: Program) -> Program:
    """Return a program that computes with such tensors as with data: one number is its last input then."""
    return _Learned(program).program()


class _Learned(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.origins = self.origins_among({item.value for item in program.parameters.values()})
        self.deep = products_of_static(program, self.static)
        self.number = Value(self.names.unique("one"), Type(FLOAT64, ()))
        self.data: dict[Value, Value] = {}
        learned = sorted(self._learned(), key=lambda value: value.name)
        for value in learned:
            self.data[value] = Value(self.names.unique(f"{value.name} data"), value.type)
            if value not in program.producers:
                self._multiply(value)
        for node in program.nodes:
            self.nodes.append(self._with_data(node))
            for value in node.outputs:
                if value in self.data:
                    self._multiply(value)

    def program(self) -> Program:
        """Return the new program."""
        program = super().program()
        return program.replace(inputs=(*program.inputs, self.number)) if self.data else program

    def _multiply(self, value: Value) -> None:
        """Add the product with the number."""
        cell = next(node.cell for node in self.before.nodes if value in node.inputs)
        self.nodes.append(Node("mul", (value, self.number), {}, (self.data[value],), cell))

    def _learned(self) -> set[Value]:
        """Return the tensors at the start of what is computed without an input, and then meets data."""
        learned: set[Value] = set()
        for node in self.before.nodes:
            if node.outputs and node.outputs[0] not in self.static:
                for position, value in enumerate(node.inputs):
                    if value is not None and value in self.deep and not _is_weight(node, position):
                        learned |= self._starts(value) if self.origins.get(value) else set()
        return learned

    def _starts(self, value: Value) -> set[Value]:
        """Return the tensors that a value is computed from as data are."""
        node = self.before.producers.get(value)
        if node is None or not self.origins.get(value):
            return {value} if is_floating(value.dtype) and value.shape else set()
        operands = [
            v for p, v in enumerate(node.inputs) if v is not None and (v in self.deep or not _is_weight(node, p))
        ]
        if node.op in STANDARDS:
            operands = operands[:1]
        deep = [v for v in operands if v in self.deep]
        followed = deep or [v for v in operands if self.origins.get(v)] or operands
        return set[Value]().union(*(self._starts(v) for v in followed))

    def _with_data(self, node: Node) -> Node:
        if self.data.keys().isdisjoint(node.inputs):
            return node
        inputs = tuple(
            self.data.get(value, value) if value is not None and not _is_weight(node, position) else value
            for position, value in enumerate(node.inputs)
        )
        return Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source)


def _is_weight(node: Node, position: int) -> bool:
    """Whether an operand is what data are multiplied with, or looked up in."""
    value = node.inputs[position]
    if node.op in PRODUCTS:
        return position > 0
    if node.op in ("embedding", "take"):
        return position == 0
    return node.op == "matmul" and position == 1 and value is not None and len(value.shape) == 2
