"""`simplify`: removes nodes that change nothing, and merges adjacent nodes that only rearrange a tensor."""

from __future__ import annotations

import numpy as np

from ...ir.types import Type
from ...ops.boundary import STOP_GRADIENT
from ..graph import Graph
from ..onnx_node import OnnxNode

RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def simplify(graph: Graph, results: set[str]) -> None:
    """Remove nodes that change nothing; merge two transpositions, and two changes of shape, into one."""
    del results  # a node whose tensor is returned is kept even if other nodes no longer need it
    producers: dict[str, OnnxNode] = {}
    same: dict[str, str] = {}
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        node = _merge(graph, node.with_inputs(same), producers)
        source = _identity_input(graph, node)
        if source is None:
            nodes.append(node)
            producers.update((output, node) for output in node.outputs)
        else:
            same[node.outputs[0]] = source
    graph.nodes = nodes
    graph.replace(same)


def _merge(graph: Graph, node: OnnxNode, producers: dict[str, OnnxNode]) -> OnnxNode:
    """Return one node for this one and the one before it; the node itself if they can't be merged."""
    before = producers.get(node.inputs[0]) if node.inputs else None
    if before is None:
        return node
    if node.op_type == before.op_type == "Transpose":
        order = [before.attributes["perm"][axis] for axis in node.attributes["perm"]]
        return node.with_operator("Transpose", before.inputs[:1], {"perm": order})
    if node.op_type in RESHAPES and before.op_type in RESHAPES:
        shape = graph.types[node.outputs[0]].shape if node.outputs[0] in graph.types else None
        if shape is not None and all(isinstance(dim, int) and dim > 0 for dim in shape):
            return node.with_operator("Reshape", (before.inputs[0], graph.constant(np.array(shape, np.int64))), {})
    return node


def _identity_input(graph: Graph, node: OnnxNode) -> str | None:
    """Return the input that the node returns unchanged; None if it changes it, or stops the gradient."""
    kind = node.op_type
    if STOP_GRADIENT in node.metadata:
        return None
    if kind == "Identity" or (kind in ("Concat", "Max", "Min", "Sum") and len(node.inputs) == 1):
        return node.inputs[0]
    if kind == "Transpose" and list(node.attributes["perm"]) == sorted(node.attributes["perm"]):
        return node.inputs[0]
    result = graph.types.get(node.outputs[0])
    if result is None:
        return None
    if kind in ("Cast", "Expand", "Reshape", "Slice", "Squeeze", "Unsqueeze") and _is(graph, node.inputs[0], result):
        return node.inputs[0] if kind != "Slice" or _goes_forward(graph, node) else None
    if kind in ("Mul", "Div"):
        for factor, other in (node.inputs[::-1], node.inputs)[: 1 if kind == "Div" else 2]:
            if _is(graph, other, result) and _all_equal(graph, factor, 1):
                return other
    if kind == "And":
        for condition, other in (node.inputs, node.inputs[::-1]):
            if _is(graph, other, result) and _all_equal(graph, condition, True):
                return other
    return None


def _is(graph: Graph, name: str, type: Type) -> bool:
    return graph.types.get(name) == type


def _goes_forward(graph: Graph, node: OnnxNode) -> bool:
    steps = graph.initializers.get(node.inputs[4]) if len(node.inputs) > 4 else np.array([1])
    return isinstance(steps, np.ndarray) and bool((steps > 0).all())


def _all_equal(graph: Graph, name: str, value: float) -> bool:
    data = None if name in graph.sources else graph.initializers.get(name)  # a parameter may be trained
    return isinstance(data, np.ndarray) and data.size > 0 and bool((data == value).all())
