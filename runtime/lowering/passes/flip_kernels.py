"""`flip_kernels`: replaces a transposed convolution of stride 1 with a convolution by the flipped kernel."""

from __future__ import annotations

from math import prod

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode

MANY_CHANNELS = 64
"""With fewer output channels of images (except one per group), ONNX Runtime computes a ConvTranspose just as fast."""


def flip_kernels(graph: Graph, results: set[str]) -> None:
    """Replace ConvTranspose-11 of stride 1 with Conv-11 if its weight is computed or a model input.

    In training, the input gradient of a convolution thus becomes another convolution, which ONNX Runtime computes
    faster. A node whose weight is an initializer is left alone.
    """
    del results  # the outputs keep their names
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        weight = graph.types.get(node.inputs[1]) if node.op_type == "ConvTranspose" else None
        if weight is not None and weight.sizes and node.inputs[1] not in graph.initializers:
            node = _as_convolution(graph, node, weight.sizes)
        graph.nodes.append(node)


def _as_convolution(graph: Graph, node: OnnxNode, sizes: tuple[int, ...]) -> OnnxNode:
    """Return the node, with a weight of these sizes, as a convolution; itself if that is impossible or slower."""
    channels, out_channels, *kernel = sizes
    strides, dilations, group = (node.attributes[name] for name in ("strides", "dilations", "group"))
    spans = [d * (size - 1) for d, size in zip(dilations, kernel, strict=True)]
    pads = [span - pad for span, pad in zip(2 * spans, node.attributes.get("pads", [0] * 2 * len(spans)), strict=True)]
    single_steps = all(stride == 1 for stride in strides) and not any(node.attributes.get("output_padding", ()))
    depthwise = group == channels and out_channels == 1
    faster = depthwise or (group == 1 and (out_channels >= MANY_CHANNELS or len(kernel) == 3))
    if not single_steps or min(pads) < 0 or not faster:
        return node
    taps = prod(kernel)
    reversed_taps = graph.constant(np.arange(taps)[::-1])
    with graph.at_node(node):

        def reshape(name: str, *shape: int) -> str:
            return str(graph.op("Reshape", name, graph.constant(np.array(shape, np.int64))))

        if depthwise:
            weight = graph.op("Gather", reshape(node.inputs[1], channels, taps), reversed_taps, axis=1)
        else:  # transposed as matrices: ONNX Runtime is slow at moving the few taps of two channels at a time
            weight = graph.op("Transpose", reshape(node.inputs[1], channels, out_channels, taps), perm=(0, 2, 1))
            weight = graph.op("Gather", weight, reversed_taps, axis=1)
            weight = graph.op("Transpose", reshape(weight, channels * taps, out_channels), perm=(1, 0))
        weight = reshape(weight, group * out_channels, channels // group, *kernel)
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
    return node.with_operator("Conv", (node.inputs[0], weight, *node.inputs[2:]), attributes)
