"""`unpool`: simplifies the gradient of a max pool."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode


def unpool(graph: Graph, results: set[str]) -> None:
    """Let MaxUnpool use the positions of MaxPool directly, and mask its input instead of its result.

    Positions in the plane, as in ATen, are those in the whole tensor minus the start of the plane, which is then added
    again. If a ReLU precedes the pool, its gradient is masked where its result was 0. At the positions of the maxima
    that is where the maxima are 0, and there are fewer of these; elsewhere the gradient is 0 anyway.
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
    """Return `indices` if `places` is `indices - begins + begins`, else `places`."""
    add = producers.get(places)
    subtract = producers.get(add.inputs[0]) if add is not None and add.op_type == "Add" else None
    if add is None or subtract is None or subtract.op_type != "Sub" or subtract.inputs[1] != add.inputs[1]:
        return places
    return subtract.inputs[0]


def _mask_input(graph: Graph, where: OnnxNode, producers: Mapping[str, OnnxNode]) -> OnnxNode:
    """Return a MaxUnpool with a masked input, if `where` masks the result of a MaxUnpool where maxima are at most 0."""
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
