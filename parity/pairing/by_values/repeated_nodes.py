"""Products that a file computes again wherever it needs them, and the module once: keys, in all steps of a decoder.

Each of the file's values would have a part of the tensor's gradient. They become one value.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from .crossings import Crossing

PRODUCTS = ("linear", "matmul", "conv", "conv_transpose")


def with_repeats_as_one(program: Program, tensors: Sequence[Crossing]) -> Program:
    """Return the program with one value for products of the same values.

    Args:
        program: the program.
        tensors: the tensors that cross the module's boundaries. Products of the shape of one that several Cells compute
            for themselves stay, since they have a gradient each.
    """
    several = {tensor.shape for tensor in tensors if len(tensor.computations) > 1}
    first = _first_of_each(program)
    repeated = {value for value, other in first.items() if value is not other}
    products = {v for node in program.nodes if node.op in PRODUCTS for v in node.outputs if v.shape not in several}
    one = {value: first[value] for value in repeated & products}
    if not one:
        return program
    nodes = [
        Node(node.op, _with_one(node.inputs, one), node.attributes, node.outputs, node.cell, node.source)
        for node in program.nodes
        if one.keys().isdisjoint(node.outputs)
    ]
    outputs = tuple(one.get(value, value) for value in program.outputs)
    used: set[Value | None] = {*outputs, *program.updates.values()}
    kept: list[Node] = []
    for node in reversed(nodes):
        if not node.outputs or not repeated.issuperset(node.outputs) or not used.isdisjoint(node.outputs):
            used.update(node.inputs)
            kept.append(node)
    return program.replace(nodes=tuple(reversed(kept)), outputs=outputs)


def _with_one(values: Sequence[Value | None], one: Mapping[Value, Value]) -> tuple[Value | None, ...]:
    return tuple(None if value is None else one.get(value, value) for value in values)


def _first_of_each(program: Program) -> dict[Value, Value]:
    """Return for each value that a node computes the first one that is computed in the same way."""
    first: dict[Value, Value] = {}
    known: dict[Hashable, tuple[Value, ...]] = {}
    for node in program.nodes:
        if get(node.op).traits.draws or any(isinstance(item, Program) for item in node.attributes.values()):
            continue
        operands = tuple(None if value is None else first.get(value, value) for value in node.inputs)
        how = node.op, operands, repr(sorted(node.attributes.items()))
        first |= dict(zip(node.outputs, known.setdefault(how, node.outputs), strict=True))
    return first
