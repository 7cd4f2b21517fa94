"""`select`: replaces a slice of size 1 whose axis is dropped by an index."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode
from .simplify import RESHAPES


def select(graph: Graph, results: set[str]) -> None:
    """Replace the Slice and Reshape of `x[:, 2:3]` without its axis by Gather-13 with a scalar index, `x[:, 2]`."""
    del results  # a slice that is used otherwise, or returned, stays
    parts = {node.outputs[0]: node for node in graph.nodes if node.op_type == "Slice"}
    graph.nodes = [
        _element(graph, node, parts[node.inputs[0]]) if node.op_type in RESHAPES and node.inputs[0] in parts else node
        for node in graph.nodes
    ]


def _element(graph: Graph, node: OnnxNode, part: OnnxNode) -> OnnxNode:
    bounds = [graph.initializers.get(name) for name in part.inputs[1:4]]
    whole, result = graph.types.get(part.inputs[0]), graph.types.get(node.outputs[0])
    if whole is None or result is None or not all(isinstance(b, np.ndarray) and b.size == 1 for b in bounds):
        return node
    start, stop, axis = (int(np.asarray(bound)[0]) for bound in bounds)
    axis %= whole.rank
    if start < 0 or stop - start != 1 or (*whole.shape[:axis], *whole.shape[axis + 1 :]) != result.shape:
        return node
    index = graph.constant(np.array(start, np.int64))
    return node.with_operator("Gather", (part.inputs[0], index), {"axis": axis})
