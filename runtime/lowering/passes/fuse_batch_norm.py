"""`fuse_batch_norm`: fuses a batch normalization with fixed statistics into the convolution before it."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode

SCALED_AXIS = {"Conv": 0, "ConvTranspose": 1}  # the axis of the output channels in the weight


def fuse_batch_norm(graph: Graph, results: set[str]) -> None:
    """Fuse scale and shift of a BatchNormalization into weight and bias of the Conv or ConvTranspose before it.

    With s = scale / sqrt(variance + epsilon), the weight becomes `weight * s` and the bias `(bias - mean) * s + shift`,
    computed in float64 and rounded once.
    """
    uses = graph.uses()
    convolutions: dict[str, OnnxNode] = {}
    for node in list(graph.nodes):
        if node.op_type in SCALED_AXIS:
            convolutions[node.outputs[0]] = node
        before = convolutions.get(node.inputs[0]) if node.op_type == "BatchNormalization" else None
        if before is None or uses[node.inputs[0]] > 1 or node.inputs[0] in results:
            continue
        parameters = (*before.inputs[1:], *node.inputs[1:])
        if all(name in graph.initializers for name in parameters) and uses[before.inputs[1]] == 1 and _is_whole(before):
            _fuse(graph, before, node)


def _is_whole(node: OnnxNode) -> bool:
    """Whether one axis of the weight holds all output channels."""
    return node.op_type == "Conv" or node.attributes.get("group", 1) == 1


def _fuse(graph: Graph, convolution: OnnxNode, normalization: OnnxNode) -> None:
    weight, *bias = convolution.inputs[1:]
    scale, shift, mean, variance = normalization.inputs[1:]
    dtype = graph.types[weight].dtype
    position = graph.nodes.index(convolution)
    rest, graph.nodes = graph.nodes[position:], graph.nodes[:position]
    with graph.at_node(convolution):

        def wide(name: str) -> str:
            return graph.cast(name, np.float64)

        deviation = graph.op("Sqrt", graph.op("Add", wide(variance), graph.constant(_epsilon(normalization))))
        factor = graph.op("Div", wide(scale), deviation)
        shape = [1] * graph.types[weight].rank
        shape[SCALED_AXIS[convolution.op_type]] = -1
        per_channel = graph.op("Reshape", factor, graph.constant(np.array(shape)))
        new_weight = graph.op("Cast", graph.op("Mul", wide(weight), per_channel), to=dtype)
        centered = graph.op("Sub", wide(bias[0]), wide(mean)) if bias else graph.op("Neg", wide(mean))
        moved = graph.op("Add", graph.op("Mul", centered, factor), wide(shift))
        new_bias = graph.op("Cast", moved, to=graph.types[shift].dtype)
    rest.remove(normalization)
    rest[0] = OnnxNode(
        convolution.op_type,
        convolution.name,
        (convolution.inputs[0], new_weight, new_bias),
        normalization.outputs,
        convolution.attributes,
        convolution.metadata,
    )
    graph.nodes += rest


def _epsilon(node: OnnxNode) -> np.float64:
    return np.float64(node.attributes.get("epsilon", 1e-5))
