"""Slices of joined parts that hold whole parts: they are made of these alone.

A program of which a product was divided joins the parts for what uses the product. A half of that, as gates of two
products, would still seem to depend on all of them.
"""

from __future__ import annotations

import itertools

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value


def with_slices_of_parts(program: Program) -> Program:
    """Return a program whose slices of joined parts take only the parts that they hold, where they hold whole ones."""
    joins: dict[Value | None, Node] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        join = joins.get(node.inputs[0]) if node.op == "slice" else None
        parts = () if join is None else _parts(node, join)
        if join is not None and len(parts) > 1:
            node = Node("concat", parts, join.attributes, node.outputs, node.cell, node.source)
        elif parts:
            node = Node("reshape", parts, {"shape": parts[0].shape}, node.outputs, node.cell, node.source)
        if node.op == "concat":
            joins[node.outputs[0]] = node
        nodes.append(node)
    return program.replace(nodes=tuple(nodes))


def _parts(node: Node, join: Node) -> tuple[Value, ...]:
    """Return the joined values that a slice holds as they are; none if it isn't made of whole ones."""
    parts, axis = tuple(value for value in join.inputs if value is not None), join.attributes["axis"]
    sizes = [value.shape[axis] for value in parts]
    ends = list(itertools.accumulate((size for size in sizes if isinstance(size, int)), initial=0))
    if len(ends) <= len(sizes) or node.attributes["axes"] != (axis,) or node.attributes["steps"] != (1,):
        return ()
    start, stop, _ = slice(node.attributes["starts"][0], node.attributes["stops"][0]).indices(ends[-1])
    return parts[ends.index(start) : ends.index(stop)] if {start, stop} <= set(ends) else ()
