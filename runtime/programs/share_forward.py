"""`share_forward`: computes forward nodes once that a gradient repeats with more outputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from ..ir.types import Node, Value
from ..ops.registry import get


def share_forward(nodes: list[Node], values: Iterable[Value]) -> list[Node]:
    """Replace each node by one on the same operands whose op extends the node's op, if there is one.

    A `vjp` rule that needs intermediate results of the forward pass calls the op that extends its own and uses the
    additional outputs. On arrays, this computes them; in a program with both nodes, only the extended one is kept.
    Casts of the same value to the same dtype count as the same operand.

    Args:
        nodes: in order of computation.
        values: the values that are returned.
    """
    pairs = [(node, get(node.op).base_op) for node in nodes]
    if all(op is None for _, op in pairs):
        return nodes
    same = _casts(nodes)
    extending = {(op.name, _operands(node, same)): node for node, op in pairs if op is not None}
    used_values = {value for node in nodes for value in node.inputs} | set(values)
    result: list[Node] = []
    joined: set[Node] = set()
    for node in nodes:
        longer = extending.get((node.op, _operands(node, same)))
        if longer is not None and longer not in joined and longer.attributes == node.attributes:
            count = len(node.outputs)
            if not used_values.intersection(longer.outputs[:count]):
                joined.add(longer)
                node = replace(node, op=longer.op, outputs=node.outputs + longer.outputs[count:])
        result.append(node)
    return [node for node in result if node not in joined]


def _casts(nodes: Iterable[Node]) -> dict[Value | None, Hashable]:
    """Return for each result of a cast a key that is equal for equal casts."""
    return {node.outputs[0]: (node.inputs[0], node.outputs[0].dtype) for node in nodes if node.op == "cast"}


def _operands(node: Node, same: dict[Value | None, Hashable]) -> tuple[Hashable, ...]:
    return tuple(same.get(value, value) for value in node.inputs)
