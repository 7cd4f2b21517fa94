"""`split_reductions`: sums and means over the first and the last axes, as in batch norm, in two steps."""

from __future__ import annotations

import numpy as np

from ...ops.common import normalize_axes
from ..graph import Graph
from ..onnx_node import OnnxNode


def split_reductions(graph: Graph, results: set[str]) -> None:
    """Reduce the last axes first, and then the others.

    On a GPU, ONNX Runtime's kernels for rows and for columns of a matrix are several times as fast as its reduction
    over any axes. The mean of means is the mean of all, since each is one of as many elements.
    """
    del results  # the outputs keep their names
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        graph.nodes.append(_split(graph, node) if node.op_type in ("ReduceSum", "ReduceMean") else node)


def _split(graph: Graph, node: OnnxNode) -> OnnxNode:
    """Return the second step of a node, after the first; the node itself if one step does."""
    type = graph.types.get(node.inputs[0])
    constant = graph.constant_value(node.inputs[1]) if len(node.inputs) > 1 else None
    if type is None or constant is None or not constant.size:
        return node
    axes = normalize_axes(tuple(int(axis) for axis in constant), len(type.shape))
    last = tuple(axis for axis in axes if set(range(axis, len(type.shape))) <= set(axes))
    if last in ((), axes):
        return node
    with graph.at_node(node):
        partial = graph.op(node.op_type, node.inputs[0], graph.constant(np.array(last)), keepdims=1)
        return node.with_inputs({node.inputs[0]: partial})  # the last axes, now of size 1, may have to be removed
