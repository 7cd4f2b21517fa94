"""Activations removed from a quantized file because a quantizer clips as they do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from .quantizers import HALF, Quantizer
from .weights import original_name


class RemovedActivations:
    """The ReLUs and clips of a float file that may be missing in the quantized one."""

    def __init__(self, floats: onnx.GraphProto, quantized: onnx.GraphProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in floats.initializer}
        self._tensors |= {
            node.output[0]: attribute.t
            for node in floats.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }
        remaining = {name for node in quantized.node if node.op_type in ("Relu", "Clip") for name in node.output}
        remaining |= {original_name(name) for name in remaining}
        candidates = [
            node
            for node in floats.node
            if node.op_type in ("Relu", "Clip") and not node.domain and node.input and node.output
        ]
        self._by_output = {node.output[0]: node for node in candidates if node.output[0] not in remaining}
        consumers: dict[str, list[NodeProto]] = {}
        for node in floats.node:
            for name in node.input:
                consumers.setdefault(name, []).append(node)
        self._by_input = {
            node.input[0]: node for node in self._by_output.values() if consumers[node.input[0]] == [node]
        }  # fmt: skip

    def restore(
        self, tensor: str, codes: str, quantizer: Quantizer, nodes: list[NodeProto]
    ) -> tuple[str, dict[str, TensorProto]]:
        """Restore a removed activation before a quantizer.

        Args:
            tensor: the quantized tensor.
            codes: its codes.
            quantizer: its quantizer, which must clip as the activation does.
            nodes: the nodes so far, to which the activation is added.

        Returns:
            The name of the tensor to quantize, and the stored tensors that the activation uses.
        """
        producer = next((node for node in reversed(nodes) if tensor in node.output), None)
        removed = self._by_output.get(tensor) or self._by_input.get(tensor)
        if producer is None or removed is None or producer.op_type == removed.op_type:
            return tensor, {}
        if any(removed.output[0] in node.output for node in nodes if node is not producer):
            return removed.output[0] if removed.input[0] == tensor else tensor, {}
        if not self._clips(removed, quantizer):
            return tensor, {}
        if removed.output[0] == tensor:  # the result has the name of the activation's output
            producer.output[:] = [removed.input[0] if name == tensor else name for name in producer.output]
        activation = NodeProto()
        activation.CopyFrom(removed)
        nodes.append(activation)
        return removed.output[0], {name: self._tensors[name] for name in removed.input[1:] if name in self._tensors}

    def _clips(self, activation: NodeProto, quantizer: Quantizer) -> bool:
        """Whether a quantizer clips at least as much as an activation, to half a step."""
        if quantizer.scale.size > 1:
            return False
        low, high = quantizer.range()
        least, most = bounds(activation, self._tensors)
        slack = HALF * quantizer.step
        return low >= least - slack and high <= most + slack


def bounds(activation: NodeProto, stored: Mapping[str, TensorProto]) -> tuple[float, float]:
    """The range in which a ReLU or clip is the identity."""
    if activation.op_type == "Relu":
        return 0.0, np.inf
    limits = {attribute.name: float(attribute.f) for attribute in activation.attribute}
    for name, position in (("min", 1), ("max", 2)):
        tensor = stored.get(activation.input[position]) if position < len(activation.input) else None
        if tensor is not None and tensor.data_location != TensorProto.EXTERNAL:
            limits[name] = float(onnx.numpy_helper.to_array(tensor).reshape(-1)[0])
    return limits.get("min", -np.inf), limits.get("max", np.inf)
