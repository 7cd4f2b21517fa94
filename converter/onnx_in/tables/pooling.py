"""ONNX pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import Dim, minimum, product
from ....runtime.ir.types import INT64
from ....runtime.memory import check_table_size
from ....runtime.ops import (
    average_pooling,
    convolution,
    creation,
    elementwise,
    max_pooling,
    reduction,
    rounding,
    shaping,
    slicing,
)
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .convolution import Padding, is_symbolic, pad_windows, per_axis, spatial_rank, window_padding, with_same_sizes
from .shaping import unknown_shape
from .table import onnx


def _geometry(
    x: SymbolicTensor, auto_pad: str, dilations: Any, kernel_shape: Any, pads: Any, strides: Any
) -> tuple[tuple[int, ...], tuple[int, ...], Padding, tuple[int, ...]]:
    """Kernel, stride, padding and dilation."""
    rank = spatial_rank(x)
    kernel = per_axis(kernel_shape, rank, "sizes of the kernel")
    stride, dilation = per_axis(strides, rank, "strides"), per_axis(dilations, rank, "dilations")
    pads_ = window_padding(auto_pad, pads, tuple(x.shape[2:]), kernel, stride, dilation)
    return kernel, stride, pads_, dilation


def _is_narrow(kernel: tuple[int, ...], pads: Padding, dilation: tuple[int, ...]) -> bool:
    """Whether the padding is at most half a window, as the ops demand."""
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    return all(2 * max(pair) <= span for pair, span in zip(pads, spans, strict=True))


@onnx("MaxPool")
def max_pool(
    context: Context, X: SymbolicTensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    kernel_shape: Any, pads: Any = None, storage_order: int = 0, strides: Any = None,
) -> Any:  # fmt: skip
    """MaxPool-1..22(X) -> Y, Indices?"""
    kernel, stride, padded, dilation = _geometry(X, auto_pad, dilations, kernel_shape, pads, strides)
    x, around = X, padded
    apart = is_symbolic(padded) or not _is_narrow(kernel, padded, dilation)
    if apart:
        lowest = -math.inf if X.dtype.kind in "fV" else int(np.iinfo(X.dtype).min)
        x, padded = pad_windows(X, padded, lowest), ((0, 0),) * len(kernel)
    values, places = max_pooling.max_pool(
        x, kernel=kernel, stride=stride, padding=padded, dilation=dilation, ceil_mode=bool(ceil_mode)
    )
    if is_symbolic(around):
        values = with_same_sizes(values, X, stride)
    if not context.uses(1):
        return values, None
    sizes = tuple(X.shape[2:])
    if apart:
        places = _without_padding(context, places, tuple(x.shape[2:]), sizes, around)
        places = with_same_sizes(places, X, stride) if is_symbolic(around) else places
    if storage_order:
        places = _column_major(context, places, sizes)
    planes = context.builder.create(creation.arange, stop=X.shape[0] * X.shape[1], dtype=INT64)
    planes = shaping.reshape(planes, shape=(X.shape[0], X.shape[1], *(1,) * len(sizes)))
    plane = product(sizes)
    return values, places + planes * (context.full((), plane, INT64) if not isinstance(plane, int) else plane)


def _coordinate(context: Context, places: SymbolicTensor, sizes: tuple[Dim, ...], axis: int) -> Any:
    """The coordinates of flat positions along an axis."""
    after = context.full((), product(sizes[axis + 1 :]), INT64)
    return rounding.remainder(rounding.floor_divide(places, after), context.full((), sizes[axis], INT64))


def _without_padding(
    context: Context, places: SymbolicTensor, wide: tuple[Dim, ...], sizes: tuple[Dim, ...], pads: Padding
) -> Any:
    """Convert flat positions in the padded tensor to positions in the unpadded one."""
    result: Any = None
    for axis, (before, _) in enumerate(pads):
        at = _coordinate(context, places, wide, axis) - context.full((), before, INT64)
        at = elementwise.maximum(
            at, np.zeros((), np.int64)
        )  # the padding may win if the tensor has the lowest number too
        at = elementwise.minimum(at, context.full((), sizes[axis] - 1, INT64))
        along = at * context.full((), product(sizes[axis + 1 :]), INT64)
        result = along if result is None else result + along
    return result


def _column_major(context: Context, places: SymbolicTensor, sizes: tuple[Dim, ...]) -> Any:
    """Convert flat positions from row-major to column-major order."""
    result: Any = None
    for axis in range(len(sizes)):
        along = _coordinate(context, places, sizes, axis) * context.full((), product(sizes[:axis]), INT64)
        result = along if result is None else result + along
    return result


@onnx("AveragePool")
def average_pool(
    context: Context, X: SymbolicTensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Any = None, kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """AveragePool-7..22(X) -> Y"""
    kernel, stride, padded, dilation = _geometry(X, auto_pad, dilations, kernel_shape, pads, strides)
    if is_symbolic(padded):
        unpadded = ((0, 0),) * len(kernel)
        total = _convolve_ones(pad_windows(X, padded), kernel, stride, unpadded, dilation)
        if count_include_pad:
            return with_same_sizes(total / np.asarray(math.prod(kernel), X.dtype), X, stride)
        inside = context.full((1, 1, *X.shape[2:]), 1.0, X.dtype)
        return with_same_sizes(
            total / _convolve_ones(pad_windows(inside, padded), kernel, stride, unpadded, dilation), X, stride
        )
    if _is_narrow(kernel, padded, dilation) and set(dilation) == {1}:
        return average_pooling.avg_pool(
            X, kernel=kernel, stride=stride, padding=padded, ceil_mode=bool(ceil_mode),
            count_include_pad=bool(count_include_pad),
        )  # fmt: skip
    total, reach = _sum_windows(X, kernel, stride, padded, dilation, bool(ceil_mode))
    spatial = [size for size in X.shape[2:] if isinstance(size, int)]
    if len(spatial) < X.ndim - 2:
        raise Unsupported("dilations or wide padding along an axis of symbolic size")
    check_table_size(*spatial)
    ones = np.ones((1, 1, *spatial))
    if count_include_pad:
        before, after = zip(*padded, strict=True)
        ones = slicing.pad(ones, before=(0, 0, *before), after=(0, 0, *after), value=1.0)
        reach = tuple((0, r - p) for (_, r), (_, p) in zip(reach, padded, strict=True))
    counts = _convolve_ones(ones, kernel, stride, reach, dilation)
    return total / counts.astype(X.dtype)


def _sum_windows(
    x: SymbolicTensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: Padding,
    dilation: tuple[int, ...],
    ceil: bool,
) -> tuple[Any, Padding]:
    """The sums of windows, and the padding extended so that the last window fits."""
    reach = []
    for size, k, s, d, (before, after) in zip(x.shape[2:], kernel, stride, dilation, pads, strict=True):
        span = d * (k - 1) + 1
        count = (size + before + after - span) // s + 1
        if ceil:
            count = minimum((size + before + after - span + s - 1) // s + 1, (size + before + s - 1) // s)
        last = (count - 1) * s + span - size - before
        reach.append((before, max(after, last) if isinstance(last, int) else after))
    return _convolve_ones(x, kernel, stride, tuple(reach), dilation), tuple(reach)


def _convolve_ones(x: Any, kernel: tuple[int, ...], stride: Any, pads: Padding, dilation: Any) -> Any:
    """Convolve each channel with ones."""
    n, c = x.shape[:2]
    planes = shaping.reshape(x, shape=(n * c, 1, *x.shape[2:]))
    check_table_size(*kernel)
    ones = np.ones((1, 1, *kernel), x.dtype)
    sums = convolution.conv(planes, ones, stride=stride, padding=pads, dilation=dilation, groups=1)
    return shaping.reshape(sums, shape=(n, c, *sums.shape[2:]))


@onnx("LpPool")
def lp_pool(
    context: Context, X: SymbolicTensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    kernel_shape: Any, p: int = 2, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """LpPool-2..22(X) -> Y"""
    kernel, stride, padded, dilation = _geometry(X, auto_pad, dilations, kernel_shape, pads, strides)
    power = np.asarray(float(p)).astype(X.dtype)
    powers = elementwise.pow(elementwise.abs(X), power)
    if is_symbolic(padded):
        total = _convolve_ones(pad_windows(powers, padded), kernel, stride, ((0, 0),) * len(kernel), dilation)
        total = with_same_sizes(total, X, stride)
    else:
        total, _ = _sum_windows(powers, kernel, stride, padded, dilation, bool(ceil_mode))
    return elementwise.pow(total, np.asarray(1.0 / p).astype(X.dtype))


def _spatial(x: SymbolicTensor) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ShapeError(f"needed spatial dimensions after (batch, channels), given {x.value.type}")
    return tuple(range(2, x.ndim))


@onnx("GlobalAveragePool")
def global_average_pool(context: Context, X: SymbolicTensor) -> Any:
    """GlobalAveragePool-1..22(X) -> Y"""
    return reduction.reduce_mean(X, axes=_spatial(X), keepdims=True)


@onnx("GlobalMaxPool")
def global_max_pool(context: Context, X: SymbolicTensor) -> Any:
    """GlobalMaxPool-1..22(X) -> Y"""
    return reduction.reduce_max(X, axes=_spatial(X), keepdims=True)


@onnx("GlobalLpPool")
def global_lp_pool(context: Context, X: SymbolicTensor, *, p: int = 2) -> Any:
    """GlobalLpPool-2..22(X) -> Y"""
    power = np.asarray(float(p)).astype(X.dtype)
    total = reduction.reduce_sum(elementwise.pow(elementwise.abs(X), power), axes=_spatial(X), keepdims=True)
    return elementwise.pow(total, np.asarray(1.0 / p).astype(X.dtype))


@onnx("MaxUnpool", values=("output_shape",))
def max_unpool(
    context: Context, X: SymbolicTensor, I: SymbolicTensor, output_shape: Any = None, *, kernel_shape: Any,
    pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """MaxUnpool-9..22(X, I, output_shape?) -> output"""
    attributes = {"kernel_shape": kernel_shape, "pads": pads, "strides": strides}
    options = {name: tuple(sizes) for name, sizes in attributes.items() if sizes is not None}
    types = () if context.declared()[0] else unknown_shape(context, X, X.ndim)
    return context.runtime_shaped("MaxUnpool", X, I, output_shape, types=types, **options)
