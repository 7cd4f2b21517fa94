"""ONNX operators that move elements or return shapes: reshaping, slicing, joining, padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import SymbolicDim, minimum, product
from ....runtime.ir.types import INT64, Type
from ....runtime.onnx_functions.shaping import END, positive_axes
from ....runtime.ops import comparison, creation, elementwise, indexing, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ..model.values import KnownTensor, known_dims, known_tensor
from .context import Context
from .table import onnx


def unknown_shape(context: Context, x: Any, rank: Any) -> tuple[Type | None, ...]:
    """A tuple of a type with data-dependent sizes; empty if `rank` isn't an integer: the rank is unknown too."""
    if not isinstance(rank, int):
        return ()
    Type(x.dtype, (0,) * rank)  # raises if the rank is unsupported, before each size gets a symbol
    return (Type(x.dtype, tuple(context.new_symbol() for _ in range(rank))),)


def length_of(vector: Any) -> Any:
    """The number of elements of a vector; None if it isn't known."""
    return vector.shape[0] if vector is not None and len(vector.shape) == 1 else None


@onnx("Shape", values=("data",), folds=False)
def shape(context: Context, data: Any, *, start: int = 0, end: int | None = None) -> Any:
    """Shape-1..25(data) -> shape"""
    return known_dims(tuple(data.shape)[start:end])


@onnx("Size", values=("data",), folds=False)
def size(context: Context, data: Any) -> Any:
    """Size-1..25(data) -> size"""
    count = product(data.shape)
    array = np.empty((), object)
    array[...] = count
    return known_tensor(count, INT64) if isinstance(count, int) else known_dims(array)


@onnx("Reshape", values=("shape",))
def reshape(context: Context, data: SymbolicTensor, shape: Any, *, allowzero: int = 0) -> Any:
    """Reshape-5..25(data, shape) -> reshaped"""
    types = unknown_shape(context, data, length_of(shape))
    return context.runtime_shaped("Reshape", data, shape, types=_declared_or(context, types), allowzero=allowzero)


def _declared_or(context: Context, types: tuple[Type | None, ...]) -> tuple[Type | None, ...]:
    """No types if the model declares one, which may have known sizes; else `types`."""
    return () if context.declared()[0] is not None else types


@onnx("Flatten")
def flatten(context: Context, input: SymbolicTensor, *, axis: int = 1) -> Any:
    """Flatten-1..25(input) -> output"""
    if not -input.ndim <= axis <= input.ndim:
        raise ShapeError(f"axis {axis} is out of range for {input.ndim} dimensions")
    at = axis % input.ndim if axis != input.ndim and input.ndim else axis
    return shaping.reshape(input, shape=(product(input.shape[:at]), product(input.shape[at:])))


@onnx("Squeeze", values=("axes",))
def squeeze(context: Context, data: SymbolicTensor, axes: Any = None) -> Any:
    """Squeeze-1..25(data, axes?) -> squeezed"""
    count = length_of(axes)
    rank = data.ndim - count if isinstance(count, int) else None
    return context.runtime_shaped(
        "Squeeze", data, axes, types=_declared_or(context, unknown_shape(context, data, rank))
    )


@onnx("Unsqueeze", values=("axes",))
def unsqueeze(context: Context, data: SymbolicTensor, axes: Any = None) -> Any:
    """Unsqueeze-1..25(data, axes) -> expanded"""
    if axes is None:
        raise ShapeError("needed axes")
    count = length_of(axes)
    rank = data.ndim + count if isinstance(count, int) else None
    return context.runtime_shaped(
        "Unsqueeze", data, axes, types=_declared_or(context, unknown_shape(context, data, rank))
    )


@onnx("Expand", values=("shape",))
def expand(context: Context, input: SymbolicTensor, shape: Any) -> Any:
    """Expand-8..13(input, shape) -> output"""
    count = length_of(shape)
    rank = max(input.ndim, count) if isinstance(count, int) else None
    return context.runtime_shaped(
        "Expand", input, shape, types=_declared_or(context, unknown_shape(context, input, rank))
    )


@onnx("Tile", values=("repeats",))
def tile(context: Context, input: SymbolicTensor, repeats: Any) -> Any:
    """Tile-6..13(input, repeats) -> output"""
    types = unknown_shape(context, input, input.ndim)
    return context.runtime_shaped("Tile", input, repeats, types=_declared_or(context, types))


@onnx("Transpose")
def transpose(context: Context, data: SymbolicTensor, *, perm: list[int] | None = None) -> Any:
    """Transpose-1..25(data) -> transposed"""
    order = tuple(reversed(range(data.ndim))) if perm is None else tuple(perm)
    return shaping.transpose(data, permutation=order)


@onnx("Concat")
def concat(context: Context, *inputs: SymbolicTensor, axis: int) -> Any:
    """Concat-4..13(*inputs) -> result"""
    if not inputs:
        raise ShapeError("needed at least one operand")
    at = normalize_axis(axis, inputs[0].ndim)
    try:
        return slicing.concat(*inputs, axis=at)
    except ShapeError:
        alike = len({(x.dtype, x.ndim) for x in inputs}) == 1
        if not alike or all(isinstance(size, int) for x in inputs for size in x.shape):
            raise
    whole: Any = 0
    for x in inputs:
        whole = whole + x.shape[at]
    rest = context.broadcast_shape(*((*x.shape[:at], *x.shape[at + 1 :]) for x in inputs))
    shape = (*rest[:at], whole, *rest[at:])
    return context.apply_at_run_time("Concat", inputs, Type(inputs[0].dtype, shape), {"axis": at})


@onnx("Slice", values=("starts", "ends", "axes", "steps"))
def slice(
    context: Context, data: SymbolicTensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Any:
    """Slice-1..13(data, starts, ends, axes?, steps?) -> output"""
    types = _declared_or(context, unknown_shape(context, data, data.ndim))
    bounds = (starts, ends, axes, steps)
    if all(x is None or (isinstance(x, KnownTensor) and x.ndim == 1) for x in bounds) and ends is not None:
        starts, ends = _within(context, data, starts, ends, axes, steps)
    return context.runtime_shaped("Slice", data, starts, ends, axes, steps, types=types)


def _within(
    context: Context, data: SymbolicTensor, starts: KnownTensor, ends: KnownTensor, axes: Any, steps: Any
) -> tuple[KnownTensor, KnownTensor]:
    """The bounds of a slice; a constant end that may exceed a symbolic size becomes the smaller of the two.

    An end stays constant if it is 1 (tensors are seldom empty), if the model declares the resulting size, or if the
    rest of the model requires it.
    """
    first, last = list(starts.data.reshape(-1)), list(ends.data.reshape(-1))
    count = len(last)
    at = range(count) if axes is None else axes.contents()
    forward = [True] * count if steps is None else [step > 0 for step in steps.contents()]
    if not len(first) == len(at) == len(forward) == count:
        return starts, ends
    declared = context.declared()[0]
    for i, axis in enumerate(positive_axes(at, data.ndim)):
        size, end = data.shape[axis], last[i]
        if isinstance(size, int) or isinstance(end, SymbolicDim) or not 1 < end < END or not forward[i]:
            continue
        reached = declared is not None and declared.rank == data.ndim and isinstance(declared.shape[axis], int)
        if not reached and context.choice():
            last[i] = minimum(int(end), size)
            if not isinstance(first[i], SymbolicDim) and first[i] > 1:
                first[i] = minimum(int(first[i]), size)
    return known_dims(tuple(first), starts.dtype), known_dims(tuple(last), ends.dtype)


@onnx("Split", values=("split",))
def split(context: Context, input: SymbolicTensor, split: Any = None, *, axis: int = 0, num_outputs: int = 0) -> Any:
    """Split-2..18(input, split?) -> *outputs"""
    if split is None or isinstance(split, KnownTensor):
        count = num_outputs or len(context.outputs)
        options: dict[str, Any] = {} if split is not None else {"num_outputs": count}
        return context.runtime_shaped("Split", input, split, axis=axis, **options)
    types = tuple(unknown_shape(context, input, input.ndim)[0] for _ in context.outputs)
    return context.runtime_shaped("Split", input, split, types=_declared_or(context, types), axis=axis)


@onnx("Pad", values=("pads", "constant_value", "axes", "value"))
def pad(
    context: Context, data: SymbolicTensor, pads: Any = None, constant_value: Any = None, axes: Any = None, *,
    mode: str = "constant", value: Any = None,
) -> Any:  # fmt: skip
    """Pad-2..25(data, pads, constant_value?, axes?) -> output"""
    types = _declared_or(context, unknown_shape(context, data, data.ndim))
    fill = constant_value if constant_value is not None else value
    return context.runtime_shaped("Pad", data, pads, fill, axes, types=types, mode=mode)


@onnx("CenterCropPad", values=("shape",))
def center_crop_pad(context: Context, input_data: SymbolicTensor, shape: Any, *, axes: list[int] | None = None) -> Any:
    """CenterCropPad-18(input_data, shape) -> output_data"""
    types = _declared_or(context, unknown_shape(context, input_data, input_data.ndim))
    options = {} if axes is None else {"axes": tuple(axes)}
    return context.runtime_shaped("CenterCropPad", input_data, shape, types=types, **options)


@onnx("Trilu", values=("k",))
def trilu(context: Context, input: SymbolicTensor, k: Any = None, *, upper: int = 1) -> Any:
    """Trilu-14(input, k?) -> output"""
    return context.runtime_shaped("Trilu", input, k, types=(input.value.type,), upper=upper)


@onnx("DepthToSpace")
def depth_to_space(context: Context, input: SymbolicTensor, *, blocksize: int, mode: str = "DCR") -> Any:
    """DepthToSpace-1..28(input) -> output"""
    n, c, h, w = input.shape
    b, d = blocksize, c // blocksize**2
    if mode == "DCR":
        x = shaping.reshape(input, shape=(n, b, b, d, h, w))
        x = shaping.transpose(x, permutation=(0, 3, 4, 1, 5, 2))
    else:
        x = shaping.reshape(input, shape=(n, d, b, b, h, w))
        x = shaping.transpose(x, permutation=(0, 1, 4, 2, 5, 3))
    return shaping.reshape(x, shape=(n, d, h * b, w * b))


@onnx("SpaceToDepth")
def space_to_depth(context: Context, input: SymbolicTensor, *, blocksize: int, mode: str = "DCR") -> Any:
    """SpaceToDepth-1..28(input) -> output"""
    n, c, h, w = input.shape
    b = blocksize
    x = shaping.reshape(input, shape=(n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    x = shaping.transpose(x, permutation=order)
    return shaping.reshape(x, shape=(n, c * b * b, h // b, w // b))


@onnx("ReverseSequence")
def reverse_sequence(
    context: Context, input: SymbolicTensor, sequence_lens: SymbolicTensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Any:
    """ReverseSequence-10..28(input, sequence_lens) -> Y: reverses the first elements along time, by batch"""
    steps, batch = input.shape[time_axis], input.shape[batch_axis]
    times = context.builder.create(creation.arange, stop=steps, dtype=INT64)
    lengths = elementwise.cast(sequence_lens, dtype=INT64)
    order = (time_axis, batch_axis)
    times = shaping.reshape(times, shape=tuple(steps if axis == time_axis else 1 for axis in sorted(order)))
    lengths = shaping.reshape(lengths, shape=tuple(batch if axis == batch_axis else 1 for axis in sorted(order)))
    places = elementwise.where(comparison.less(times, lengths), lengths - 1 - times, times)
    shape = (*places.shape, *(1,) * (input.ndim - 2))
    places = shaping.expand(shaping.reshape(places, shape=shape), shape=tuple(input.shape))
    return indexing.gather(input, places, axis=time_axis)
