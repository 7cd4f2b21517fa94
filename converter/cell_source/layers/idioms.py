"""Idioms: several ops that are one concept, such as dropout, captured as a random draw, a division and a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....runtime.ir.types import Node, Value


def merge_idioms(
    body: Sequence[Node | int], uses: Mapping[Value | None, int], scalar: Callable[[Value], Any]
) -> list[Node | int]:
    """The body of a call, with each idiom as one node.

    `dropout(x, p, features)` isn't an op of the IR: with `features`, a random number is drawn for each channel, else
    for each element. `scaled_dot_product_attention` keeps its `dropout`, but not its random mask.
    """
    producers = {value: node for node in body if isinstance(node, Node) for value in node.outputs}
    replaced: dict[Node, Node | None] = {}

    def random_node(value: Value | None) -> Node | None:
        node = None if value is None else producers.get(value)
        return node if node is not None and node.op == "bernoulli" and uses[value] == 1 else None

    def dropout(node: Node, x: Value | None, factor: Value | None) -> None:
        division = None if factor is None else producers.get(factor)
        if x is None or division is None or division.op != "div" or uses[factor] != 1:
            return
        draw, kept = random_node(division.inputs[0]), division.inputs[1]
        if draw is None or kept is None or scalar(kept) != draw.attributes["probability"]:
            return
        shape = draw.attributes["shape"]
        features = shape != x.shape
        if features and shape != (*x.shape[:2], *(1 for _ in x.shape[2:])):
            return
        attributes = {"p": round(1.0 - draw.attributes["probability"], 12), "features": features}
        replaced[node] = Node("dropout", (x,), attributes, node.outputs, node.cell, node.source)
        replaced[division] = replaced[draw] = None

    for node in producers.values():
        if node.op == "mul":
            dropout(node, *node.inputs)
            if node not in replaced:
                dropout(node, *node.inputs[::-1])
        elif node.op == "scaled_dot_product_attention" and len(node.inputs) > 4:
            draw = random_node(node.inputs[4])
            if draw is not None:
                replaced[draw] = None
                replaced[node] = Node(node.op, node.inputs[:4], node.attributes, node.outputs, node.cell, node.source)
    result: list[Node | int] = []
    for part in body:
        kept_part = part if isinstance(part, int) else replaced.get(part, part)
        if kept_part is not None:
            result.append(kept_part)
    return result
