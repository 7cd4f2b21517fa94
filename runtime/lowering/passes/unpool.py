"""`unpool`: the gradient of a max pool goes the shortest way back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode


def unpool(graph: Graph, results: set[str]) -> None:
    """MaxUnpool takes positions as MaxPool counts them, and what masks its result masks what it is given.

    Positions in the plane, as ATen has them, are those in the whole tensor less where the plane begins: which is added
    again. And where a ReLU came before the pool, its gradient is masked where it was 0: at the chosen places that is
    where the maxima are 0, which are fewer; elsewhere the gradient is 0 anyway.
    """
    uses = graph.uses()
    producers = {name: node for node in graph.nodes for name in node.outputs}
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        if node.op_type == "MaxUnpool":
            g, places, shape = node.inputs
            node = node.with_operator("MaxUnpool", (g, _whole_positions(places, producers), shape), node.attributes)
            producers[node.outputs[0]] = node
        elif node.op_type == "Where" and uses[node.inputs[2]] == 1 and node.inputs[2] not in results:
            node = _mask_input(graph, node, producers)
        graph.nodes.append(node)


def _whole_positions(places: str, producers: Mapping[str, OnnxNode]) -> str:
    """`indices`, where `places` are `indices - begins + begins`; else `places`."""
    added = producers.get(places)
    taken = producers.get(added.inputs[0]) if added is not None and added.op_type == "Add" else None
    if added is None or taken is None or taken.op_type != "Sub" or taken.inputs[1] != added.inputs[1]:
        return places
    return taken.inputs[0]


def _mask_input(graph: Graph, where: OnnxNode, producers: Mapping[str, OnnxNode]) -> OnnxNode:
    """MaxUnpool of what is masked, if `where` masks what a MaxUnpool gives by the maxima's being at most 0."""
    mask, zero, unpooled = where.inputs
    unpools, compares = producers.get(unpooled), producers.get(mask)
    if unpools is None or compares is None or unpools.op_type != "MaxUnpool" or compares.op_type != "LessOrEqual":
        return where
    g, places, shape = unpools.inputs
    pools = producers.get(places)
    scalar = graph.initializers.get(zero)
    if pools is None or pools.op_type != "MaxPool" or pools.inputs[0] != compares.inputs[0]:
        return where
    if compares.inputs[1] != zero or not isinstance(scalar, np.ndarray) or scalar.shape != () or scalar.item() != 0:
        return where
    with graph.at_node(where):
        mask = graph.op("LessOrEqual", pools.outputs[0], zero)
        masked = graph.op("Where", mask, zero, g)
    return where.with_operator("MaxUnpool", (masked, places, shape), unpools.attributes)
