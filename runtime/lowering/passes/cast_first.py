"""`cast_first`: casts half-precision tensors to float32 before they are transposed rather than afterwards."""

from __future__ import annotations

from dataclasses import replace

from ...ir.types import FLOAT32, is_half
from ..graph import Graph
from ..onnx_node import OnnxNode


def cast_first(graph: Graph, results: set[str]) -> None:
    """Swap a Transpose and the Cast after it, so that the Transpose can be merged with those that follow.

    ONNX Runtime 1.31 crashes if a tensor that is transposed, cast and transposed again is both multiplied and used
    elsewhere.
    """
    del results  # the transposed tensor is kept if it is used elsewhere
    transposed: dict[str, OnnxNode] = {}
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        if node.op_type == "Transpose":
            transposed[node.outputs[0]] = node
        before = transposed.get(node.inputs[0]) if node.op_type == "Cast" else None
        source = graph.types.get(before.inputs[0]) if before is not None else None
        result = graph.types.get(node.outputs[0])
        if before is not None and source is not None and is_half(source.dtype) and result and result.dtype == FLOAT32:
            name = graph.unique(node.name)
            wide = graph.define(f"{name}_output_0", source.with_dtype(FLOAT32))
            nodes.append(replace(node, name=name, inputs=before.inputs[:1], outputs=(wide,)))
            node = node.with_operator("Transpose", (wide,), dict(before.attributes))
        nodes.append(node)
    graph.nodes = nodes
