"""`fuse_gemm`: fuses a matrix product and the addition of a bias into one Gemm."""

from __future__ import annotations

from ...ir.types import is_floating
from ..graph import Graph
from ..onnx_node import OnnxNode


def fuse_gemm(graph: Graph, results: set[str]) -> None:
    """Replace `a @ b + c`, with matrices a and b and a single row c, by Gemm-13."""
    uses = graph.uses()
    products: dict[str, OnnxNode] = {}
    nodes: list[OnnxNode] = []
    for node in graph.nodes:
        if node.op_type == "MatMul" and _multiplies_matrices(graph, node):
            products[node.outputs[0]] = node
        elif node.op_type == "Add":
            for product, bias in (node.inputs, node.inputs[::-1]):
                if product in products and uses[product] == 1 and product not in results and _is_row(graph, bias):
                    a, b = products[product].inputs
                    nodes.remove(products[product])
                    node = node.with_operator("Gemm", (a, b, bias), {})
                    break
        nodes.append(node)
    graph.nodes = nodes


def _multiplies_matrices(graph: Graph, node: OnnxNode) -> bool:
    types = [graph.types.get(name) for name in node.inputs]
    return all(type is not None and type.rank == 2 and is_floating(type.dtype) for type in types)


def _is_row(graph: Graph, bias: str) -> bool:
    type = graph.types.get(bias)
    return type is not None and (type.rank == 1 or (type.rank == 2 and type.shape[0] == 1))
