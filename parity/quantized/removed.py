"""Activations that a quantizer made superfluous: it clips what they would have clipped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from .quantizers import HALF, Quantizer
from .weights import original


class Removed:
    """The ReLUs and clips of a float file that the quantized one may do without."""

    def __init__(self, floats: onnx.GraphProto, quantized: onnx.GraphProto) -> None:
        self._stored = {tensor.name: tensor for tensor in floats.initializer}
        self._stored |= {
            node.output[0]: attribute.t
            for node in floats.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }
        kept = {name for node in quantized.node if node.op_type in ("Relu", "Clip") for name in node.output}
        kept |= {original(name) for name in kept}
        candidates = [
            node
            for node in floats.node
            if node.op_type in ("Relu", "Clip") and not node.domain and node.input and node.output
        ]
        self._by_output = {node.output[0]: node for node in candidates if node.output[0] not in kept}
        takers: dict[str, list[NodeProto]] = {}
        for node in floats.node:
            for name in node.input:
                takers.setdefault(name, []).append(node)
        self._by_input = {
            node.input[0]: node for node in self._by_output.values() if takers[node.input[0]] == [node]
        }  # fmt: skip

    def restored(
        self, tensor: str, codes: str, quantizer: Quantizer, nodes: list[NodeProto]
    ) -> tuple[str, dict[str, TensorProto]]:
        """What a tensor is called before it is rounded, behind the activation that was removed, which is put back.

        Args:
            tensor: what is rounded.
            codes: what it is rounded to.
            quantizer: by what: it must clip as the activation does.
            nodes: the nodes before; the activation is added to them.

        Returns:
            The name of the tensor that is to be rounded, and the stored tensors that the activation takes.
        """
        made = next((node for node in reversed(nodes) if tensor in node.output), None)
        removed = self._by_output.get(tensor) or self._by_input.get(tensor)
        if made is None or removed is None or made.op_type == removed.op_type:
            return tensor, {}
        if any(removed.output[0] in node.output for node in nodes if node is not made):
            return removed.output[0] if removed.input[0] == tensor else tensor, {}
        if not self._clips(removed, quantizer):
            return tensor, {}
        if removed.output[0] == tensor:  # the result took over the name of the activation's
            made.output[:] = [removed.input[0] if name == tensor else name for name in made.output]
        activation = NodeProto()
        activation.CopyFrom(removed)
        nodes.append(activation)
        return removed.output[0], {name: self._stored[name] for name in removed.input[1:] if name in self._stored}

    def _clips(self, activation: NodeProto, quantizer: Quantizer) -> bool:
        """Whether a quantizer clips what an activation does, to half a step."""
        if quantizer.scale.size > 1:
            return False
        low, high = quantizer.range()
        least, most = bounds(activation, self._stored)
        slack = HALF * quantizer.step
        return low >= least - slack and high <= most + slack


def bounds(activation: NodeProto, stored: Mapping[str, TensorProto]) -> tuple[float, float]:
    """Between which numbers a ReLU or a clip leaves what it is given as it is."""
    if activation.op_type == "Relu":
        return 0.0, np.inf
    given = {attribute.name: float(attribute.f) for attribute in activation.attribute}
    for name, place in (("min", 1), ("max", 2)):
        tensor = stored.get(activation.input[place]) if place < len(activation.input) else None
        if tensor is not None and tensor.data_location != TensorProto.EXTERNAL:
            given[name] = float(onnx.numpy_helper.to_array(tensor).reshape(-1)[0])
    return given.get("min", -np.inf), given.get("max", np.inf)
