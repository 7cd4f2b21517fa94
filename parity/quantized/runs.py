"""Runs of a quantized file and of its float network that show how many steps their tensors are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...runtime.compiled.isolated import IsolatedSession
from ...runtime.ir.types import is_floating
from ..sides.records import Array
from .float_form import FloatForm
from .quantized_tensors import Quantized


@dataclass
class Apart:
    """What is known of a tensor that the file rounds.

    Attributes:
        low: the smallest number that the float network has there.
        high: the largest.
        count: of numbers that were seen.
        beyond: how many of them can't be represented.
        isolated: steps that the rounding of what it is computed from, weights and operands, moves it by.
        end_to_end: steps that it is off in the file as it runs.
        index: where it is off most, end to end.
        values: of the float network and of the file there.
    """

    low: float = np.inf
    high: float = -np.inf
    count: int = 0
    beyond: int = 0
    isolated: float = 0.0
    end_to_end: float = 0.0
    index: tuple[int, ...] | None = None
    values: tuple[float, float] = (0.0, 0.0)


def measured(
    form: FloatForm, quantized: onnx.ModelProto, samples: Sequence[Mapping[str, Array]], provider: str
) -> dict[str, Apart]:
    """How far tensors are apart on these inputs, by the names of their codes.

    Raises:
        SessionError: ONNX Runtime doesn't run the models.
    """
    shown = [each for each in form.quantized if each.quantizer.scale.size]
    found = {each.codes: Apart() for each in shown}
    if not shown:
        return found
    inputs = {value.name for value in form.model.graph.input}
    made = {each.tensor: TensorProto.FLOAT for each in shown if each.tensor not in inputs}
    floats = _session(_returning(form.model, made), provider)
    kinds = {each.codes: helper.np_dtype_to_tensor_dtype(each.quantizer.dtype) for each in shown}
    whole = _session(_returning(quantized, kinds), provider)
    apart = _session(cut(form, shown), provider)
    try:
        for sample in samples:
            numbers = dict(sample) | _tensors(floats.run(sample))
            codes = _tensors(whole.run(sample, list(kinds)))
            rounded = {each.codes: _rounded(each, numbers[each.tensor]) for each in shown}
            alone = _tensors(apart.run({**_taken(apart, sample), **rounded}))
            for each in shown:
                _compare(found[each.codes], each, numbers[each.tensor], codes[each.codes], alone.get(each.tensor))
    finally:
        for session in (floats, whole, apart):
            session.close()
    return found


def _compare(found: Apart, each: Quantized, numbers: Array, codes: Array, alone: Array | None) -> None:
    if not numbers.size:
        return
    numbers = numbers.astype(np.float64)
    quantizer = each.quantizer
    matter = np.clip(numbers, *each.bounds)
    found.low, found.high = min(found.low, float(matter.min())), max(found.high, float(matter.max()))
    found.count += numbers.size
    found.beyond += int((quantizer.beyond(matter) > 0).sum())
    if codes.shape == numbers.shape:
        steps = quantizer.steps_between(codes, numbers)
        if np.isfinite(each.bounds).any():
            scale = quantizer.aligned(quantizer.scale, numbers.shape)
            steps = np.abs(np.clip(quantizer.numbers(codes), *each.bounds) - matter) / scale
        if float(steps.max()) >= found.end_to_end:
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(steps)), steps.shape))
            found.end_to_end, found.index = float(steps.max()), at
            found.values = float(numbers[at]), float(quantizer.numbers(codes)[at])
    if alone is not None and alone.shape == numbers.shape:
        scale = quantizer.aligned(quantizer.scale, numbers.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.abs(alone.astype(np.float64) - numbers) / scale
        found.isolated = max(found.isolated, float(np.nan_to_num(moved).max()))


def _rounded(each: Quantized, numbers: Array) -> Array:
    """The numbers rounded to their steps."""
    quantizer = each.quantizer
    scale, zero = (quantizer.aligned(a, numbers.shape) for a in (quantizer.scale, quantizer.zero_point))
    low, high = quantizer.codes
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.clip(np.round(numbers.astype(np.float64) / scale) + zero, low, high)
    return np.asarray(np.nan_to_num((codes - zero) * scale), np.float32)


def _tensors(results: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Outputs by name; of what isn't a tensor, nothing."""
    return {name: next(iter(parts.values())) for name, parts in results.items() if len(parts) == 1}


def _session(model: onnx.ModelProto, provider: str) -> IsolatedSession:
    return IsolatedSession(model, provider, optimized=False)


def _taken(session: IsolatedSession, sample: Mapping[str, Array]) -> dict[str, Array]:
    assert isinstance(session.model, onnx.ModelProto)
    names = {value.name for value in session.model.graph.input}
    return {name: array for name, array in sample.items() if name in names}


def _unnamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without names of nodes: ONNX Runtime refuses those that two have."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for node in found.graph.node:
        node.ClearField("name")
    return found


def _returning(model: onnx.ModelProto, kinds: Mapping[str, int]) -> onnx.ModelProto:
    """The model that also returns these tensors, of these element types."""
    found = _unnamed(model)
    known = {value.name for value in found.graph.output}
    found.graph.output.extend(
        helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items() if name not in known
    )
    return found


def cut(form: FloatForm, shown: Sequence[Quantized]) -> onnx.ModelProto:
    """The float network with rounded weights, whose rounded tensors are inputs: each part of it alone."""
    found = _unnamed(form.model)
    graph = found.graph
    fed = {each.codes for each in shown}
    nodes = [node for node in graph.node if not fed & set(node.output)]
    del graph.node[:], graph.output[:]
    graph.node.extend(nodes)
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(fed))
    inputs = {value.name for value in graph.input}
    wanted = dict.fromkeys(each.tensor for each in shown if each.tensor not in inputs)
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in wanted)
    numbers = {
        weight.tensor: weight.numbers.swapaxes(-1, -2) if weight.swapped else weight.numbers
        for weight in form.weights
        if weight.tensor
    }
    for tensor in graph.initializer:
        if tensor.name in numbers and is_floating(helper.tensor_dtype_to_np_dtype(tensor.data_type)):
            tensor.CopyFrom(numpy_helper.from_array(numbers[tensor.name].astype(np.float32), tensor.name))
    return found
