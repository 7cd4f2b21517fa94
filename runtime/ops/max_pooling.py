"""Maxima of windows in one to three spatial dimensions, and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import ConversionError
from ..ir.dims import Dim, product
from ..ir.types import FLOAT32, FLOAT64, INT64, at_least_float32, is_floating
from ..traits import Traits
from . import indexing, shaping
from .pooling_windows import check_pooling, onnx_ceil_mode, pooled_counts, required_padding
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .windows import Padding, Sizes, onnx_pads, pad, tap_index, taps, window_span, windows


@operator
def max_pool(
    x: Tensor, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its position: ATen `max_pool*d_with_indices`, ONNX MaxPool-12.

    The first of equal elements counts; NaN is largest, and the last of several counts.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions.
        kernel: size of a window per spatial dimension.
        stride: distance between windows per spatial dimension.
        padding: `(before, after)` per spatial dimension, each at most half a window; it is never the maximum.
        dilation: distance between the taps per spatial dimension.
        ceil_mode: include windows that extend beyond the end, if they start inside `x` or in the padding before it.

    Returns:
        `(batch, channels, *counts)`, and int64 positions in the flattened spatial dimensions of `x`.
    """


max_pool.traits = Traits(ties="defined", exact=True, costly=True, family="pooling")


@max_pool.infer
def _(
    x: Type, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[Type, Type]:
    check_pooling(x, kernel, stride, padding, dilation)
    values = x.with_shape((*x.shape[:2], *pooled_counts(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)))
    return values, values.with_dtype(INT64)


@max_pool.kernel
def _(
    x: Array, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[Array, Array]:
    sizes, floating = x.shape[2:], is_floating(x.dtype)
    lowest = -np.inf if floating else np.iinfo(x.dtype).min
    counts = pooled_counts(sizes, kernel, stride, padding, dilation, ceil_mode)
    reach = required_padding(sizes, counts, kernel, stride, padding, dilation)
    view = windows(pad(x, reach, lowest), kernel, stride, dilation, counts)
    values = view[tap_index((0,) * len(kernel))].copy()
    for tap in taps(kernel):
        np.maximum(values, view[tap_index(tap)], out=values)
    starts = [np.arange(n) * s - before for n, s, (before, _) in zip(counts, stride, padding, strict=True)]
    chosen = np.zeros(values.shape, np.int32)  # number of the first tap with the maximum
    missed = np.ones(values.shape, bool)
    for tap in taps(kernel):
        places = [start + t * d for start, t, d in zip(starts, tap, dilation, strict=True)]
        missed &= (view[tap_index(tap)] != values) | _outside(places, sizes)
        chosen += missed
    if floating and np.isnan(values).any():
        for number, tap in enumerate(taps(kernel)):
            chosen[np.isnan(view[tap_index(tap)])] = number
    steps = _flat_positions([np.arange(k) * d for k, d in zip(kernel, dilation, strict=True)], sizes).reshape(-1)
    indices = _flat_positions(starts, sizes) + steps[chosen]
    return values, indices


@max_pool.vjp
def _(
    g: tuple[Tensor, None], y: tuple[Tensor, Tensor], x: Tensor, *,
    kernel: Sizes, stride: Sizes, dilation: Sizes, **_: Any,
) -> Any:  # fmt: skip
    spans = map(window_span, kernel, dilation)
    disjoint = all(step >= span for step, span in zip(stride, spans, strict=True))
    return max_pool_gradient(g[0], y[1], size=x.shape[2:], disjoint=disjoint)


@max_pool.onnx
def _(
    graph: OnnxGraph, x: str, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[str, str]:
    geometry: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": stride,
        "pads": onnx_pads(padding),
        "dilations": dilation,
    }
    geometry["ceil_mode"] = onnx_ceil_mode(graph, x, kernel, stride, padding, dilation, ceil_mode)
    kind = graph.type(x)
    is_supported = is_floating(kind.dtype) or kind.dtype.itemsize == 1
    if not is_supported and kind.dtype.itemsize > np.dtype(np.int32).itemsize:
        raise ConversionError(f"MaxPool doesn't support {kind.dtype.name}, which float64 can't represent exactly")
    values, indices = graph.op("MaxPool", x if is_supported else graph.cast(x, FLOAT64), outputs=2, **geometry)
    values = values if is_supported else graph.op("Cast", values, to=kind.dtype)
    return values, graph.op("Sub", indices, _onnx_planes(graph, kind.shape))


@operator
def max_pool_gradient(g: Tensor, indices: Tensor, *, size: tuple[Dim, ...], disjoint: bool = False) -> Tensor:
    """The gradient of `max_pool` and `adaptive_max_pool`: ATen `max_pool*d_with_indices_backward`.

    Args:
        g: `(batch, channels, *counts)`, cotangent of the maxima.
        indices: the same shape, positions in the flattened spatial dimensions.
        size: spatial sizes of the input of the pooling.
        disjoint: whether no position occurs twice in a plane.

    Returns:
        `(batch, channels, *size)`: the sums of `g` at the positions in `indices`, zero elsewhere.
    """


max_pool_gradient.traits = Traits(costly=True)


@max_pool_gradient.infer
def _(g: Type, indices: Type, *, size: tuple[Dim, ...], disjoint: bool) -> Type:
    require(g.shape == indices.shape, f"g has the shape {g.shape}, indices {indices.shape}")
    require(indices.dtype == INT64, f"indices must be int64, given {indices.dtype.name}")
    return g.with_shape((*g.shape[:2], *size))


@max_pool_gradient.kernel
def _(g: Array, indices: Array, *, size: Sizes, disjoint: bool) -> Array:
    planes, plane = prod(g.shape[:2]), prod(size)
    result = np.zeros((*g.shape[:2], *size), g.dtype)
    positions = indices.reshape(planes, prod(g.shape[2:])) + np.arange(planes)[:, None] * plane
    if disjoint:
        result.reshape(-1)[positions.reshape(-1)] = g.reshape(-1)
    else:
        np.add.at(result.reshape(-1), positions.reshape(-1), g.reshape(-1))
    return result


@max_pool_gradient.vjp
def _(h: Tensor, y: Tensor, g: Tensor, indices: Tensor, *, size: tuple[Dim, ...], **_: Any) -> tuple[Tensor, None]:
    planes = shaping.reshape(h, shape=(*g.shape[:2], product(size)))
    places = shaping.reshape(indices, shape=(*g.shape[:2], product(g.shape[2:])))
    return shaping.reshape(indexing.gather(planes, places, axis=2), shape=g.shape), None


@max_pool_gradient.onnx
def _(graph: OnnxGraph, g: str, indices: str, *, size: tuple[Dim, ...], disjoint: bool) -> str:
    kind = graph.type(g)
    if disjoint and kind.dtype != FLOAT64:  # ONNX Runtime's MaxUnpool has no float64 kernel
        shape = (*kind.shape[:2], *size)
        places = graph.op("Add", indices, _onnx_planes(graph, shape))
        # ONNX uses the windows only to check the given sizes
        unit = (1,) * len(size)
        unpooled = graph.op("MaxUnpool", graph.cast(g, FLOAT32), places, graph.dims(shape), kernel_shape=unit)
        return unpooled if kind.dtype == FLOAT32 else graph.cast(unpooled, kind.dtype)
    dtype = at_least_float32(kind.dtype)  # sums are in float32, as in the kernel
    planes = graph.dims((*kind.shape[:2], product(kind.shape[2:])))
    zeros = graph.op("Expand", graph.constant(0, dtype), graph.dims((*kind.shape[:2], product(size))))
    flat = [graph.op("Reshape", value, planes) for value in (indices, graph.cast(g, dtype))]
    sums = graph.op("ScatterElements", zeros, *flat, axis=2, reduction="add")
    result = graph.op("Reshape", sums, graph.dims((*kind.shape[:2], *size)))
    return result if dtype == kind.dtype else graph.cast(result, kind.dtype)


def _flat_positions(places: Sequence[Array], sizes: Sizes) -> Array:
    """Return positions in a flattened plane, `(*counts)`, from those along each axis."""
    flat = np.zeros((), np.int64)
    for along, size in zip(np.ix_(*places), sizes, strict=True):
        flat = flat * size + along
    return flat


def _outside(places: Sequence[Array], sizes: Sizes) -> Array:
    """Return which positions, given along each axis, are outside the plane, `(*counts)`."""
    outside = np.zeros((), bool)
    for along, size in zip(places, sizes, strict=True):
        outside = outside[..., None] | (along < 0) | (along >= size)
    return outside


def _onnx_planes(graph: OnnxGraph, shape: tuple[Dim, ...]) -> str:
    """Return the start of each plane in a flattened tensor of that shape, `(batch, channels, 1, ...)`.

    ONNX counts positions in the whole tensor, ATen in each plane.
    """
    plane, ones = product(shape[2:]), (1,) * len(shape[2:])
    bounds = (0, product(shape), plane)
    starts = graph.op("Range", *(graph.op("Squeeze", graph.dims((bound,))) for bound in bounds))
    return str(graph.op("Reshape", starts, graph.dims((*shape[:2], *ones))))
