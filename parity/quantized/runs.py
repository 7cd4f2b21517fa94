"""Runs of a quantized file and its float network that measure the deviations of their tensors in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...runtime.compiled.isolated import IsolatedSession
from ...runtime.ir.types import is_floating
from ..sides.records import Array
from .float_form import FloatForm
from .outliers import channel_sizes
from .quantized_tensors import QuantizedTensor


@dataclass
class Deviation:
    """The deviation of a quantized tensor.

    Attributes:
        low: the smallest number in the float network.
        high: the largest number in the float network.
        count: number of elements measured.
        beyond: number of elements that aren't representable.
        isolated: error in steps caused by rounding its direct inputs, weights and operands.
        end_to_end: error in steps in the whole quantized file.
        index: index of the largest error end to end.
        values: values of the float network and the file at that index.
        channels: the largest absolute value of each channel in the float network, by axis.
    """

    low: float = np.inf
    high: float = -np.inf
    count: int = 0
    beyond: int = 0
    isolated: float = 0.0
    end_to_end: float = 0.0
    index: tuple[int, ...] | None = None
    values: tuple[float, float] = (0.0, 0.0)
    channels: dict[int, Array] = field(default_factory=dict)

    def add_channels(self, numbers: Array) -> None:
        """Take the sizes of the channels of one more sample."""
        for axis, sizes in channel_sizes(numbers).items():
            before = self.channels.get(axis, sizes)
            self.channels[axis] = np.maximum(before, sizes) if before.shape == sizes.shape else sizes


def measure(
    form: FloatForm, quantized: onnx.ModelProto, samples: Sequence[Mapping[str, Array]], provider: str
) -> dict[str, Deviation]:
    """Return the deviations of tensors on these inputs, by the names of their codes.

    Raises:
        SessionError: ONNX Runtime can't run the models.
    """
    tensors = [each for each in form.quantized if each.quantizer.scale.size]
    result = {each.codes: Deviation() for each in tensors}
    if not tensors:
        return result
    inputs = {value.name for value in form.model.graph.input}
    float_outputs = {each.tensor: TensorProto.FLOAT for each in tensors if each.tensor not in inputs}
    floats = _session(_with_outputs(form.model, float_outputs), provider)
    kinds = {each.codes: helper.np_dtype_to_tensor_dtype(each.quantizer.dtype) for each in tensors}
    whole = _session(_with_outputs(quantized, kinds), provider)
    isolated = _session(cut_at_quantizers(form, tensors), provider)
    try:
        for sample in samples:
            numbers = dict(sample) | _tensors(floats.run(sample))
            codes = _tensors(whole.run(sample, list(kinds)))
            rounded_inputs = {each.codes: _round(each, numbers[each.tensor]) for each in tensors}
            alone = _tensors(isolated.run({**_inputs_of(isolated, sample), **rounded_inputs}))
            for each in tensors:
                _compare(result[each.codes], each, numbers[each.tensor], codes[each.codes], alone.get(each.tensor))
    finally:
        for session in (floats, whole, isolated):
            session.close()
    return result


def _compare(deviation: Deviation, each: QuantizedTensor, numbers: Array, codes: Array, alone: Array | None) -> None:
    if not numbers.size:
        return
    numbers = numbers.astype(np.float64)
    quantizer = each.quantizer
    matter = np.clip(numbers, *each.bounds)
    deviation.low, deviation.high = min(deviation.low, float(matter.min())), max(deviation.high, float(matter.max()))
    deviation.count += numbers.size
    if quantizer.scale.size == 1:
        deviation.add_channels(matter)
    deviation.beyond += int((quantizer.beyond(matter) > 0).sum())
    if codes.shape == numbers.shape:
        steps = quantizer.steps_between(codes, numbers)
        if np.isfinite(each.bounds).any():
            scale = quantizer.broadcast(quantizer.scale, numbers.shape)
            steps = np.abs(np.clip(quantizer.numbers(codes), *each.bounds) - matter) / scale
        if float(steps.max()) >= deviation.end_to_end:
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(steps)), steps.shape))
            deviation.end_to_end, deviation.index = float(steps.max()), at
            deviation.values = float(numbers[at]), float(quantizer.numbers(codes)[at])
    if alone is not None and alone.shape == numbers.shape:
        scale = quantizer.broadcast(quantizer.scale, numbers.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps_alone = np.abs(alone.astype(np.float64) - numbers) / scale
        deviation.isolated = max(deviation.isolated, float(np.nan_to_num(steps_alone).max()))


def _round(each: QuantizedTensor, numbers: Array) -> Array:
    """Return the numbers rounded to multiples of the step."""
    quantizer = each.quantizer
    scale, zero = (quantizer.broadcast(a, numbers.shape) for a in (quantizer.scale, quantizer.zero_point))
    low, high = quantizer.codes
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.clip(np.round(numbers.astype(np.float64) / scale) + zero, low, high)
    return np.asarray(np.nan_to_num((codes - zero) * scale), np.float32)


def _tensors(results: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Return outputs by name, without those that aren't tensors."""
    return {name: next(iter(parts.values())) for name, parts in results.items() if len(parts) == 1}


def _session(model: onnx.ModelProto, provider: str) -> IsolatedSession:
    return IsolatedSession(model, provider, optimized=False)


def _inputs_of(session: IsolatedSession, sample: Mapping[str, Array]) -> dict[str, Array]:
    assert isinstance(session.model, onnx.ModelProto)
    names = {value.name for value in session.model.graph.input}
    return {name: array for name, array in sample.items() if name in names}


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


def cut_at_quantizers(form: FloatForm, tensors: Sequence[QuantizedTensor]) -> onnx.ModelProto:
    """Return the float network with rounded weights, cut so that its quantized tensors are inputs."""
    result = _without_node_names(form.model)
    graph = result.graph
    fed = {each.codes for each in tensors}
    nodes = [node for node in graph.node if not fed & set(node.output)]
    del graph.node[:], graph.output[:]
    graph.node.extend(nodes)
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(fed))
    inputs = {value.name for value in graph.input}
    outputs = dict.fromkeys(each.tensor for each in tensors if each.tensor not in inputs)
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs)
    numbers = {
        weight.tensor: weight.numbers.swapaxes(-1, -2) if weight.swapped else weight.numbers
        for weight in form.weights
        if weight.tensor
    }
    for tensor in graph.initializer:
        if tensor.name in numbers and is_floating(helper.tensor_dtype_to_np_dtype(tensor.data_type)):
            tensor.CopyFrom(numpy_helper.from_array(numbers[tensor.name].astype(np.float32), tensor.name))
    return result
