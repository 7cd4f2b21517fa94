"""`scatter_maxima`: replaces MaxUnpool, which ONNX Runtime computes on the CPU alone."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode


def scatter_maxima(graph: Graph, results: set[str]) -> None:
    """Let ScatterElements write the values to their positions in the whole tensor, flattened."""
    del results  # the outputs keep their names
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        graph.nodes.append(_scattered(graph, node) if node.op_type == "MaxUnpool" else node)


def _scattered(graph: Graph, node: OnnxNode) -> OnnxNode:
    values, positions, shape = node.inputs
    with graph.at_node(node):
        flat = graph.constant(np.array([-1]))
        zeros = graph.op("Reshape", graph.op("ConstantOfShape", shape), flat)
        sources = (graph.op("Reshape", positions, flat), graph.op("Reshape", values, flat))
        scattered = graph.op("ScatterElements", zeros, *sources, axis=0)
    return node.with_operator("Reshape", (scattered, shape), {})
