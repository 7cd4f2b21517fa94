"""The absolute resolution of results of ONNX Runtime's kernels, where it doesn't depend on their magnitude.

ONNX Runtime computes a sigmoid as a fraction plus one half: a result near 0 has the rounding error of one half. A
quantizer returns a multiple of its step: a value midway between two multiples may be rounded either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from ..verdicts.deviations import Array
from ..verdicts.judge import ROUNDING_FACTOR

PASS_THROUGH = frozenset(
    {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Concat", "Cast"}
)
SIGMOID_UNITS = 2.0
"""Largest error of the kernel, in units in the last place of 1; up to 1.2 was measured (version 1.31, at -17)."""
MAX_STEPS = 1.0 / 64.0
"""Share of the elements that a quantizer may have rounded the other way."""


@dataclass(frozen=True)
class Resolution:
    """The resolution of one tensor.

    Attributes:
        sigmoid: whether it comes from a sigmoid.
        step: step of the quantizer that it comes from; 0 for none.
    """

    sigmoid: bool = False
    step: float = 0.0

    def verdict(self, difference: Array, of_reference: Array, bar: float, fine: float, epsilon: float) -> bool | None:
        """Whether a tensor is right within the kernel's resolution; None if the resolution doesn't decide.

        Args:
            difference: its absolute differences from the truth.
            of_reference: the reference's absolute differences from the truth.
            bar: the largest difference that passes otherwise.
            fine: the largest difference that passes between values of the same step.
            epsilon: epsilon of the working dtype.
        """
        if self.sigmoid:
            return True if (difference <= max(bar, SIGMOID_UNITS * epsilon)).all() else None
        steps, reference_steps = (np.round(array / self.step) for array in (difference, of_reference))
        between = np.abs(difference - steps * self.step) <= fine
        changed, by_reference = int((steps > 0).sum()), int((reference_steps > 0).sum())
        few = changed <= max(1, MAX_STEPS * difference.size, ROUNDING_FACTOR * by_reference)
        return bool(between.all()) and few and bool((steps * self.step <= max(self.step, bar) * (1 + epsilon)).all())


def resolutions(graph: onnx.GraphProto) -> dict[str, Resolution]:
    """The known resolutions of a graph's outputs, by name."""
    producers = {name: node for node in graph.node for name in node.output}
    scales = {tensor.name: tensor for tensor in graph.initializer if not tensor.dims or list(tensor.dims) == [1]}
    result = {value.name: _resolution(value.name, producers, scales) for value in graph.output}
    return {name: resolution for name, resolution in result.items() if resolution is not None}


def _resolution(
    name: str, producers: Mapping[str, onnx.NodeProto], scales: Mapping[str, onnx.TensorProto]
) -> Resolution | None:
    node = producers.get(name)
    for _ in producers:
        if node is None or node.op_type not in PASS_THROUGH or node.domain not in ("", "ai.onnx"):
            break
        node = producers.get(node.input[0])
    quantizing = node is not None and (node.domain, node.op_type) == ("com.microsoft", "DequantizeLinear")
    if node is None or (node.domain not in ("", "ai.onnx") and not quantizing):
        return None
    if node.op_type == "Sigmoid":
        return Resolution(sigmoid=True)
    scale = scales.get(node.input[1]) if node.op_type == "DequantizeLinear" and len(node.input) > 1 else None
    if scale is None or scale.data_location == onnx.TensorProto.EXTERNAL:
        return None
    step = abs(float(onnx.numpy_helper.to_array(scale).astype(np.float64).flat[0]))
    return Resolution(step=step) if np.isfinite(step) and step > 0 else None
