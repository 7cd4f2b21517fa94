"""`forward_once`: what a gradient computes again, with more outputs, is computed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .ir.types import Node, Value
from .ops.registry import get


def forward_once(nodes: list[Node], wanted: Iterable[Value]) -> list[Node]:
    """Nodes whose op extends that of another node, on the same operands, take its place and give its outputs.

    So a `vjp` rule asks for what the forward pass knows and doesn't hand out: it calls the op that extends its own and
    uses the outputs that are new. On arrays that computes them; in a program that holds both nodes, one is left.

    Args:
        nodes: in order of computation.
        wanted: the values that are handed out.
    """
    pairs = ((node, get(node.op).extended) for node in nodes)
    extending = {(op.name, node.inputs): node for node, op in pairs if op is not None}
    if not extending:
        return nodes
    used = {value for node in nodes for value in node.inputs} | set(wanted)
    result: list[Node] = []
    joined: set[Node] = set()
    for node in nodes:
        longer = extending.get((node.op, node.inputs))
        if longer is not None and longer not in joined and longer.attributes == node.attributes:
            count = len(node.outputs)
            if not used.intersection(longer.outputs[:count]):
                joined.add(longer)
                node = replace(node, op=longer.op, outputs=node.outputs + longer.outputs[count:])
        result.append(node)
    return [node for node in result if node not in joined]
