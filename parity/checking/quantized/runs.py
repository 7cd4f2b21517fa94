"""Runs of a quantized file and its float network that measure the deviations of their tensors in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from ....runtime.compiled.isolated import IsolatedSession
from ...sides.records import Array
from .float_form import FloatForm
from .outliers import channel_sizes, typical_size
from .parts import SHIFTS, PartError, Parts, tensors
from .quantized_tensors import QuantizedTensor


@dataclass
class Deviation:
    """The deviation of a quantized tensor.

    Attributes:
        low: the smallest number in the float network.
        high: the largest number in the float network.
        count: number of elements measured.
        beyond: number of elements that aren't representable.
        clipped: sum of the squares of the steps by which they aren't.
        isolated: error in steps where the part before it starts from the float network's values.
        end_to_end: error in steps in the whole quantized file.
        index: index of the largest error end to end.
        values: values of the float network and the file at that index.
        typical: the median of the absolute values that aren't 0, in the sample where it is largest.
        channels: the largest absolute value of each channel in the float network, by axis.
    """

    low: float = np.inf
    high: float = -np.inf
    count: int = 0
    beyond: int = 0
    clipped: float = 0.0
    isolated: float = 0.0
    end_to_end: float = 0.0
    index: tuple[int, ...] | None = None
    values: tuple[float, float] = (0.0, 0.0)
    typical: float = 0.0
    channels: dict[int, Array] = field(default_factory=dict)

    @property
    def saturation(self) -> float:
        """What values beyond the range cost, as a multiple of rounding, whose error has a variance of 1/12 step."""
        return (12.0 * self.clipped / self.count) ** 0.5 if self.count else 0.0

    def add_channels(self, numbers: Array) -> None:
        """Take the sizes of the channels of one more sample."""
        for axis, sizes in channel_sizes(numbers).items():
            before = self.channels.get(axis, sizes)
            self.channels[axis] = np.maximum(before, sizes) if before.shape == sizes.shape else sizes


def measure(
    form: FloatForm, quantized: onnx.ModelProto, samples: Sequence[Mapping[str, Array]], provider: str
) -> tuple[dict[str, Deviation], dict[str, PartError]]:
    """Measure the file on these inputs, as a whole and in parts.

    Args:
        form: the float network.
        quantized: the quantized model.
        samples: inputs by name.
        provider: ONNX Runtime's provider.

    Returns:
        The deviations of quantized tensors, by the names of their codes, and the errors of parts, by tensor.

    Raises:
        SessionError: ONNX Runtime can't run the models.
    """
    quantized_tensors = [tensor for tensor in form.quantized if tensor.quantizer.scale.size]
    result = {tensor.codes: Deviation() for tensor in quantized_tensors}
    parts = Parts(form, quantized, provider)
    if not parts.errors:
        parts.close()
        return result, {}
    inputs = {value.name for value in form.model.graph.input}
    float_outputs = {name: TensorProto.FLOAT for name in parts.needed() if name not in inputs}
    floats = _session(_with_outputs(form.model, float_outputs), provider)
    kinds = {tensor.codes: helper.np_dtype_to_tensor_dtype(tensor.quantizer.dtype) for tensor in quantized_tensors}
    whole = _session(_with_outputs(quantized, kinds), provider)
    try:
        for number, sample in enumerate(samples):
            numbers = dict(sample) | tensors(floats.run(sample))
            codes = tensors(whole.run(sample, list(kinds))) if kinds else {}
            draws = [number % len(SHIFTS)] if len(samples) >= len(SHIFTS) else range(len(SHIFTS))
            alone = parts.add(sample, numbers, draws)
            for tensor in quantized_tensors:
                _compare(
                    result[tensor.codes], tensor, numbers[tensor.tensor], codes[tensor.codes], alone.get(tensor.codes)
                )
    finally:
        for session in (floats, whole, parts):
            session.close()
    return result, parts.errors


def _compare(deviation: Deviation, tensor: QuantizedTensor, numbers: Array, codes: Array, alone: Array | None) -> None:
    if not numbers.size:
        return
    numbers = numbers.astype(np.float64)
    quantizer = tensor.quantizer
    matter = np.clip(numbers, *tensor.bounds)
    deviation.low, deviation.high = min(deviation.low, float(matter.min())), max(deviation.high, float(matter.max()))
    deviation.count += numbers.size
    if quantizer.scale.size == 1:
        deviation.add_channels(matter)
        deviation.typical = max(deviation.typical, typical_size(matter))
    beyond = quantizer.beyond(matter)
    deviation.beyond += int((beyond > 0).sum())
    deviation.clipped += float((beyond**2).sum())
    if codes.shape == numbers.shape:
        steps = _steps(tensor, codes, numbers)
        if float(steps.max()) >= deviation.end_to_end:
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(steps)), steps.shape))
            deviation.end_to_end, deviation.index = float(steps.max()), at
            deviation.values = float(numbers[at]), float(quantizer.numbers(codes)[at])
    if alone is not None and alone.shape == numbers.shape:
        deviation.isolated = max(deviation.isolated, float(_steps(tensor, alone, numbers).max()))


def _steps(tensor: QuantizedTensor, codes: Array, numbers: Array) -> Array:
    """Return the errors of codes in steps, as far as the values matter."""
    if not np.isfinite(tensor.bounds).any():
        return tensor.quantizer.steps_between(codes, numbers)
    scale = tensor.quantizer.broadcast(tensor.quantizer.scale, numbers.shape)
    off = np.abs(np.clip(tensor.quantizer.numbers(codes), *tensor.bounds) - np.clip(numbers, *tensor.bounds))
    return np.asarray(off / scale)


def _session(model: onnx.ModelProto, provider: str) -> IsolatedSession:
    return IsolatedSession(model, provider, optimized=False)


def _without_node_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy without names of nodes, since ONNX Runtime refuses duplicates."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for node in result.graph.node:
        node.ClearField("name")
    return result


def _with_outputs(model: onnx.ModelProto, kinds: Mapping[str, int]) -> onnx.ModelProto:
    """Return the model with these tensors, of these element types, as additional outputs."""
    result = _without_node_names(model)
    existing = {value.name for value in result.graph.output}
    result.graph.output.extend(
        helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items() if name not in existing
    )
    return result
