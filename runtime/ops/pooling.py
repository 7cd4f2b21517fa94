"""Pooling over windows in one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import ConversionError
from ..ir.dims import Dim, minimum, product
from ..ir.types import FLOAT32, FLOAT64, INT64, at_least_float32, is_floating
from . import indexing, shaping
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .windows import Padding, Sizes, at, onnx_pads, padded, taps, window_count, window_span, windows


@operator
def max_pool(
    x: Tensor, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and where it is: ATen `max_pool*d_with_indices`, ONNX MaxPool-12.

    Of equal elements the first counts; NaN is largest, and of several the last counts.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions.
        kernel: taps of a window; per spatial dimension, as are all that follow.
        stride: distance of the windows.
        padding: `(before, after)`, each at most half a window; never chosen.
        dilation: distance between the taps.
        ceil_mode: also windows that stick out at the end, if they start inside `x` or in the padding before it.

    Returns:
        `(batch, channels, *counts)`, and int64 positions in the flattened spatial dimensions of `x`.
    """


@max_pool.infer
def _(
    x: Type, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[Type, Type]:
    _check(x, kernel, stride, padding, dilation)
    values = x.with_shape((*x.shape[:2], *_counts(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)))
    return values, values.with_dtype(INT64)


@max_pool.kernel
def _(
    x: Array, *, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[Array, Array]:
    sizes, floating = x.shape[2:], is_floating(x.dtype)
    lowest = -np.inf if floating else np.iinfo(x.dtype).min
    counts = _counts(sizes, kernel, stride, padding, dilation, ceil_mode)
    reach = _reach(sizes, counts, kernel, stride, padding, dilation)
    view = windows(padded(x, reach, lowest), kernel, stride, dilation, counts)
    values = view[at((0,) * len(kernel))].copy()
    for tap in taps(kernel):
        np.maximum(values, view[at(tap)], out=values)
    starts = [np.arange(n) * s - before for n, s, (before, _) in zip(counts, stride, padding, strict=True)]
    chosen = np.zeros(values.shape, np.int32)  # number of the tap: how many come before the first that is the largest
    missed = np.ones(values.shape, bool)
    for tap in taps(kernel):
        places = [start + t * d for start, t, d in zip(starts, tap, dilation, strict=True)]
        missed &= (view[at(tap)] != values) | _outside(places, sizes)
        chosen += missed
    if floating and np.isnan(values).any():
        for number, tap in enumerate(taps(kernel)):
            chosen[np.isnan(view[at(tap)])] = number
    steps = _flattened([np.arange(k) * d for k, d in zip(kernel, dilation, strict=True)], sizes).reshape(-1)
    indices = _flattened(starts, sizes) + steps[chosen]
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
    geometry["ceil_mode"] = _onnx_ceil_mode(graph, x, kernel, stride, padding, dilation, ceil_mode)
    values, indices = graph.op("MaxPool", x, outputs=2, **geometry)
    return values, graph.op("Sub", indices, _onnx_planes(graph, graph.type(x).shape))


@operator
def max_pool_gradient(g: Tensor, indices: Tensor, *, size: tuple[Dim, ...], disjoint: bool = False) -> Tensor:
    """The gradient of `max_pool` and `adaptive_max_pool`: ATen `max_pool*d_with_indices_backward`.

    Args:
        g: `(batch, channels, *counts)`, cotangent of the maxima.
        indices: the same shape, positions in the flattened spatial dimensions.
        size: spatial sizes of what was pooled.
        disjoint: no position occurs twice in a plane.

    Returns:
        `(batch, channels, *size)`: `g` added up where the indices say, zero elsewhere.
    """


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
    if disjoint and kind.dtype != FLOAT64:  # for which ONNX Runtime has no kernel
        shape = (*kind.shape[:2], *size)
        places = graph.op("Add", indices, _onnx_planes(graph, shape))
        # the windows serve to check the sizes, which are given
        unit = (1,) * len(size)
        unpooled = graph.op("MaxUnpool", graph.cast(g, FLOAT32), places, graph.dims(shape), kernel_shape=unit)
        return unpooled if kind.dtype == FLOAT32 else graph.cast(unpooled, kind.dtype)
    dtype = at_least_float32(kind.dtype)  # added up in float32, as the kernel does
    planes = graph.dims((*kind.shape[:2], product(kind.shape[2:])))
    zeros = graph.op("Expand", graph.constant(0, dtype), graph.dims((*kind.shape[:2], product(size))))
    flat = [graph.op("Reshape", value, planes) for value in (indices, graph.cast(g, dtype))]
    summed = graph.op("ScatterElements", zeros, *flat, axis=2, reduction="add")
    result = graph.op("Reshape", summed, graph.dims((*kind.shape[:2], *size)))
    return result if dtype == kind.dtype else graph.cast(result, kind.dtype)


@operator
def avg_pool(
    x: Tensor, *, kernel: Sizes, stride: Sizes, padding: Padding,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window: ATen `avg_pool*d`, ONNX AveragePool-11.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions; floating-point.
        kernel: taps of a window; per spatial dimension, as are all that follow.
        stride: distance of the windows.
        padding: zeros `(before, after)`, each at most half a window.
        ceil_mode: also windows that stick out at the end, if they start inside `x` or in the padding before it.
        count_include_pad: whether the padding counts in the mean; what sticks out beyond it never does.
        divisor_override: divide by this instead.

    Returns:
        `(batch, channels, *counts)`.
    """


@avg_pool.infer
def _(x: Type, *, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **_: Any) -> Type:
    ones = (1,) * len(kernel)
    _check(x, kernel, stride, padding, ones)
    require(is_floating(x.dtype), f"needed a floating-point tensor, given {x.dtype.name}")
    return x.with_shape((*x.shape[:2], *_counts(x.shape[2:], kernel, stride, padding, ones, ceil_mode)))


@avg_pool.kernel
def _(x: Array, *, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **divisor: Any) -> Array:
    ones = (1,) * len(kernel)
    counts = _counts(x.shape[2:], kernel, stride, padding, ones, ceil_mode)
    reach = _reach(x.shape[2:], counts, kernel, stride, padding, ones)
    view = windows(padded(x, reach), kernel, stride, ones, counts)
    total = np.zeros((*x.shape[:2], *counts), x.dtype)
    for tap in taps(kernel):
        total += view[at(tap)]
    total /= _divisors(x.shape[2:], kernel, stride, padding, ceil_mode, **divisor).astype(x.dtype)
    return total


@avg_pool.vjp
def _(g: Tensor, y: Tensor, x: Tensor, **attributes: Any) -> Any:
    return avg_pool_gradient(g, size=x.shape[2:], **attributes)


@avg_pool.onnx
def _(
    graph: OnnxGraph, x: str, *, kernel: Sizes, stride: Sizes, padding: Padding,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> str:  # fmt: skip
    geometry: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "pads": onnx_pads(padding)}
    geometry["ceil_mode"] = _onnx_ceil_mode(graph, x, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    if divisor_override is None:
        return str(graph.op("AveragePool", x, count_include_pad=int(count_include_pad), **geometry))
    means = graph.op("AveragePool", x, count_include_pad=1, **geometry)
    kind = graph.type(x)
    divisors = _divisors(kind.shape[2:], kernel, stride, padding, ceil_mode, count_include_pad=True)
    return str(graph.op("Mul", means, graph.constant(divisors / divisor_override, kind.dtype)))


@operator
def avg_pool_gradient(
    g: Tensor, *, size: tuple[Dim, ...], kernel: Sizes, stride: Sizes, padding: Padding,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The gradient of `avg_pool`: its transpose. ATen `avg_pool*d_backward`.

    Args:
        g: `(batch, channels, *counts)`, cotangent of the means.
        size: spatial sizes of what was pooled.
        kernel: of the pooling, as are all that follow; see there.
        stride: distance of the windows.
        padding: zeros `(before, after)`.
        ceil_mode: whether windows stuck out at the end.
        count_include_pad: whether the padding counted.
        divisor_override: what was divided by instead.

    Returns:
        `(batch, channels, *size)`.
    """


@avg_pool_gradient.infer
def _(
    g: Type, *, size: tuple[Dim, ...], kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **_: Any
) -> Type:
    x = g.with_shape((*g.shape[:2], *size))
    ones = (1,) * len(kernel)
    _check(x, kernel, stride, padding, ones)
    counts = _counts(size, kernel, stride, padding, ones, ceil_mode)
    require(g.shape[2:] == counts, f"the cotangent g must have the spatial sizes {counts}")
    return x


@avg_pool_gradient.kernel
def _(
    g: Array, *, size: Sizes, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **divisor: Any
) -> Array:
    ones, counts = (1,) * len(kernel), g.shape[2:]
    reach = _reach(size, counts, kernel, stride, padding, ones)
    share = g / _divisors(size, kernel, stride, padding, ceil_mode, **divisor).astype(g.dtype)
    full = [before + n + after for (before, after), n in zip(reach, size, strict=True)]
    result = np.zeros((*g.shape[:2], *full), g.dtype)
    view = windows(result, kernel, stride, ones, counts)
    for tap in taps(kernel):
        view[at(tap)] += share
    return padded(result, tuple((-before, -after) for before, after in reach))


@avg_pool_gradient.vjp
def _(h: Tensor, y: Tensor, g: Tensor, *, size: tuple[Dim, ...], **attributes: Any) -> Any:
    return avg_pool(h, **attributes)


@avg_pool_gradient.onnx
def _(
    graph: OnnxGraph, g: str, *, size: tuple[Dim, ...], kernel: Sizes, stride: Sizes, padding: Padding,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> str:  # fmt: skip
    kind = graph.type(g)
    counts = kind.shape[2:]
    divisors = _divisors(size, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    share = graph.op("Div", g, graph.constant(divisors, kind.dtype))
    images = graph.op("Reshape", share, graph.dims((product(kind.shape[:2]), 1, *counts)))
    ones = graph.constant(np.ones((1, 1, *kernel)), kind.dtype)
    spread = graph.op("ConvTranspose", images, ones, strides=stride)
    missing = [
        n + before - ((count - 1) * s + k)
        for n, (before, _), count, s, k in zip(size, padding, counts, stride, kernel, strict=True)
    ]
    cut = graph.op("Pad", spread, graph.dims((0, 0, *(-before for before, _ in padding), 0, 0, *missing)))
    return str(graph.op("Reshape", cut, graph.dims((*kind.shape[:2], *size))))


def _check(x: Type, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> None:
    spatial = x.rank - 2
    require(1 <= spatial <= 3, f"needed one to three spatial dimensions after (batch, channels), x has rank {x.rank}")
    for name, values in {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}.items():
        require(len(values) == spatial, f"{name} {values} must have an entry per spatial dimension: {spatial}")
    require(min(*kernel, *stride, *dilation) >= 1, "kernel, stride and dilation must be positive")
    for pads, k, d in zip(padding, kernel, dilation, strict=True):
        fits = min(pads) >= 0 and 2 * max(pads) <= window_span(k, d)
        require(fits, f"padding {pads} must be at most half a window of {window_span(k, d)}")


def _counts(
    sizes: Any, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> tuple[Any, ...]:
    """Number of windows per axis: `pooling_output_shape` in ATen/native/Pool.h."""
    counts = []
    for size, k, s, (before, after), d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        if ceil_mode:
            sticking_out = window_count(size, window_span(k, d), s, (before, after + s - 1))
            counts.append(minimum(sticking_out, (size + before + s - 1) // s))
        else:
            counts.append(window_count(size, window_span(k, d), s, (before, after)))
    return tuple(counts)


def _reach(sizes: Any, counts: Any, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Padding:
    """Padding per axis under which the last window fits, at least `padding`."""
    geometry = zip(sizes, counts, kernel, stride, padding, dilation, strict=True)
    return tuple(
        (before, max(after, (n - 1) * s + window_span(k, d) - size - before))
        for size, n, k, s, (before, after), d in geometry
    )


def _flattened(places: Sequence[Array], sizes: Sizes) -> Array:
    """Positions in a flattened plane, `(*counts)`, from those along each axis."""
    flat = np.zeros((), np.int64)
    for along, size in zip(np.ix_(*places), sizes, strict=True):
        flat = flat * size + along
    return flat


def _outside(places: Sequence[Array], sizes: Sizes) -> Array:
    """Which places, given along each axis, aren't in the plane: `(*counts)`."""
    outside = np.zeros((), bool)
    for along, size in zip(places, sizes, strict=True):
        outside = outside[..., None] | (along < 0) | (along >= size)
    return outside


def _divisors(
    sizes: Any, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """What the sum of each window is divided by: `(*counts)`, or one number where it is the same for all."""
    if divisor_override is not None:
        return np.array(float(divisor_override))
    if not ceil_mode and (count_include_pad or not any(map(any, padding))):
        return np.array(float(prod(kernel)))
    if not all(isinstance(size, int) for size in sizes):
        raise ConversionError(f"this average pooling has an ONNX form for fixed sizes only; it goes over {sizes}")
    counts = _counts(sizes, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    divisors = np.ones(())
    for size, n, k, s, (before, after) in zip(sizes, counts, kernel, stride, padding, strict=True):
        starts = np.arange(n) * s - before
        ends = np.minimum(starts + k, size + after)
        lengths = ends - starts if count_include_pad else np.minimum(ends, size) - np.maximum(starts, 0)
        divisors = divisors[..., None] * lengths
    return divisors


def _onnx_planes(graph: OnnxGraph, shape: tuple[Dim, ...]) -> str:
    """Where each plane begins in a whole tensor of that shape, `(batch, channels, 1, ...)`.

    ONNX counts positions in the whole tensor, ATen in the plane.
    """
    plane, ones = product(shape[2:]), (1,) * len(shape[2:])
    bounds = (0, product(shape), plane)
    begins = graph.op("Range", *(graph.op("Squeeze", graph.dims((bound,))) for bound in bounds))
    return str(graph.op("Reshape", begins, graph.dims((*shape[:2], *ones))))


def _onnx_ceil_mode(
    graph: OnnxGraph, x: str, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> int:
    """`ceil_mode`, but 0 where rounding up adds no window: there operator sets before 22 count one too many."""
    sizes = graph.type(x).shape[2:]
    if ceil_mode and all(isinstance(size, int) for size in sizes):
        spans = [window_span(k, d) for k, d in zip(kernel, dilation, strict=True)]
        grown = [int(size) + sum(pads) for size, pads in zip(sizes, padding, strict=True)]
        if any(size < span for size, span in zip(grown, spans, strict=True)):
            return 1  # rounded down, there is no window at all
        up, down = (_counts(sizes, kernel, stride, padding, dilation, mode) for mode in (True, False))
        return int(up != down)
    return int(ceil_mode)
