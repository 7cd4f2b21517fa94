"""Tensors that a port moves in the same way several times, and the module once: each user has a copy of its own.

A port shifts a sequence by a step for its keys, its values and its gates in turn; the module has a Cell that does it
once. Only one of the equal values is the place of that Cell's result, and the gradients of the others would be missing
there. Values that are computed and not only moved stay apart: each may be the result of a Cell of its own.
"""

from __future__ import annotations

from collections.abc import Hashable

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.lowering.passes.share import hashable
from ....runtime.ops.registry import get

KEPT = ("boundary", "stop_gradient", "guard")
"""Ops that do more than to move a tensor."""


def with_equal_moves_merged(program: Program) -> Program:
    """Return the program with one node for all that move the same tensors in the same way."""
    first: dict[Hashable, Node] = {}
    same: dict[Value, Value] = {}
    stored: dict[Value, Hashable] = {constant.value: hashable(constant.data) for constant in program.constants}
    nodes = []
    for node in program.nodes:
        inputs = tuple(None if value is None else same.get(value, value) for value in node.inputs)
        node = Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source)
        if node.op == "full":
            stored[node.outputs[0]] = _written(node, ())
        elif _moves(program, node):
            operands = tuple(stored.get(value, value) if value is not None else None for value in inputs)
            other = first.setdefault(_written(node, operands), node)
            if other is not node:
                same[node.outputs[0]] = other.outputs[0]
                continue
        nodes.append(node)
    if not same:
        return program
    return program.replace(nodes=tuple(nodes), outputs=tuple(same.get(value, value) for value in program.outputs))


def _written(node: Node, operands: tuple[Hashable, ...]) -> Hashable:
    attributes = tuple((name, hashable(value)) for name, value in sorted(node.attributes.items()))
    return node.op, operands, attributes, node.outputs[0].type


def _moves(program: Program, node: Node) -> bool:
    """Whether a node only moves elements of what the program computes, and of constants."""
    stored = program.constant_data
    parameters = {parameter.value for parameter in program.parameters.values()}
    operands = [value for value in node.inputs if value is not None]
    return (
        bool(get(node.op).traits.moves)
        and node.op not in KEPT
        and len(node.outputs) == 1
        and parameters.isdisjoint(operands)
        and any(value not in stored for value in operands)
    )
