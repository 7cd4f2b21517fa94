"""`fuse_rms_norm`: makes one operator of a root mean square norm that a model computes step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.types import FLOAT32
from ..graph import Graph
from ..onnx_node import OnnxNode

RMS_NORM_OPSET = 23
Match = tuple[str, float, list[OnnxNode]]


def fuse_rms_norm(graph: Graph, results: set[str]) -> None:
    """Replace `x / sqrt(mean(x * x) + epsilon) * scale`, over the last axis, in float32, with a stored scale.

    From opset 23 on by RMSNormalization-23; below by the steps that ONNX Runtime finds and fuses itself:
    Div(x, Sqrt(ReduceMean(Pow(x, 2)) + epsilon)).
    """
    uses, producers = graph.uses(), {name: node for node in graph.nodes for name in node.outputs}

    def step(name: str, *op_types: str) -> OnnxNode | None:
        """The node of one of these types that computes a tensor; None if the tensor is used elsewhere, too."""
        node = producers.get(name)
        fits = node is not None and node.op_type in op_types and uses[name] == 1 and name not in results
        return node if fits else None

    replaced: dict[int, OnnxNode | None] = {}  # by the node's id; None for a node that goes
    for node in (candidate for candidate in graph.nodes if candidate.op_type == "Mul"):
        for scale, normalized in (node.inputs, node.inputs[::-1]):
            match = _match(graph, step, normalized) if _is_scale(graph, scale) else None
            if match is None or graph.types[match[0]].shape[-1:] != graph.types[scale].shape:
                continue
            x, epsilon, inner = match
            if graph.opset >= RMS_NORM_OPSET:
                attributes = {"axis": -1, "epsilon": epsilon}
                replaced[id(node)] = node.with_operator("RMSNormalization", (x, scale), attributes)
                replaced |= dict.fromkeys(map(id, inner))
            else:
                replaced |= _divide(graph, x, inner)
            break
    graph.nodes = [new for node in graph.nodes if (new := replaced.get(id(node), node)) is not None]


def _match(graph: Graph, step: Callable[..., OnnxNode | None], normalized: str) -> Match | None:
    """Return x, epsilon and the nodes, last first, of `x / sqrt(mean(x * x) + epsilon)`; None for another value."""
    if (product := step(normalized, "Mul")) is None:
        return None
    for x, inverse in (product.inputs, product.inputs[::-1]):
        if (
            (reciprocal := step(inverse, "Reciprocal")) is None
            or (root := step(reciprocal.inputs[0], "Sqrt")) is None
            or (shifted := step(root.inputs[0], "Add")) is None
        ):
            continue
        for mean, epsilon in (shifted.inputs, shifted.inputs[::-1]):
            number = graph.constant_value(epsilon)
            if (
                (reduced := step(mean, "ReduceMean")) is not None
                and (squares := step(reduced.inputs[0], "Mul", "Pow")) is not None
                and number is not None
                and number.size == 1
                and _is_float32(graph, x)
                and _squares(graph, squares, x)
                and _is_over_last_axis(graph, reduced, x)
            ):
                return x, float(number.item()), [product, reciprocal, root, shifted, reduced, squares]
    return None


def _divide(graph: Graph, x: str, inner: list[OnnxNode]) -> dict[int, OnnxNode | None]:
    """Return the replacements that make a quotient of the product with a reciprocal, and a power of the squares."""
    product, reciprocal, root, *_, squares = inner
    return {
        id(product): product.with_operator("Div", (x, root.outputs[0]), {}),
        id(reciprocal): None,
        id(squares): squares.with_operator("Pow", (x, graph.constant(2.0, FLOAT32)), {}),
    }


def _is_scale(graph: Graph, name: str) -> bool:
    return name in graph.initializers and graph.types[name].rank == 1


def _is_float32(graph: Graph, name: str) -> bool:
    type = graph.types.get(name)
    return type is not None and type.dtype == FLOAT32


def _squares(graph: Graph, node: OnnxNode, x: str) -> bool:
    if node.op_type == "Mul":
        return node.inputs == (x, x)
    exponent = graph.constant_value(node.inputs[1])
    return node.inputs[0] == x and exponent is not None and exponent.size == 1 and exponent.item() == 2


def _is_over_last_axis(graph: Graph, node: OnnxNode, x: str) -> bool:
    axes = graph.constant_value(node.inputs[1]) if len(node.inputs) > 1 else np.asarray(node.attributes.get("axes"))
    if axes is None or axes.dtype.kind != "i" or not node.attributes.get("keepdims", 1):
        return False
    return axes.tolist() in ([-1], [graph.types[x].rank - 1])
