"""Means of windows in one to three spatial dimensions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..errors import ConversionError
from ..ir.dims import Dim, product
from ..ir.types import is_floating
from ..traits import Traits
from .pooling_windows import check_pooling, onnx_ceil_mode, pooled_counts, required_padding
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .windows import Padding, Sizes, onnx_pads, pad, tap_index, taps, windows


@operator
def avg_pool(
    x: Tensor, *, kernel: Sizes, stride: Sizes, padding: Padding,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window: ATen `avg_pool*d`, ONNX AveragePool-11.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions; floating-point.
        kernel: size of a window per spatial dimension.
        stride: distance between windows per spatial dimension.
        padding: zeros `(before, after)` per spatial dimension, each at most half a window.
        ceil_mode: include windows that extend beyond the end, if they start inside `x` or in the padding before it.
        count_include_pad: whether the padding counts in the mean; positions beyond it never do.
        divisor_override: divide by this number instead.

    Returns:
        `(batch, channels, *counts)`.
    """


avg_pool.traits = Traits(costly=True, family="pooling")


@avg_pool.infer
def _(x: Type, *, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **_: Any) -> Type:
    ones = (1,) * len(kernel)
    check_pooling(x, kernel, stride, padding, ones)
    require(is_floating(x.dtype), f"needed a floating-point tensor, given {x.dtype.name}")
    return x.with_shape((*x.shape[:2], *pooled_counts(x.shape[2:], kernel, stride, padding, ones, ceil_mode)))


@avg_pool.kernel
def _(x: Array, *, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **divisor: Any) -> Array:
    ones = (1,) * len(kernel)
    counts = pooled_counts(x.shape[2:], kernel, stride, padding, ones, ceil_mode)
    reach = required_padding(x.shape[2:], counts, kernel, stride, padding, ones)
    view = windows(pad(x, reach), kernel, stride, ones, counts)
    total = np.zeros((*x.shape[:2], *counts), x.dtype)
    for tap in taps(kernel):
        total += view[tap_index(tap)]
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
    geometry["ceil_mode"] = onnx_ceil_mode(graph, x, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
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
        size: spatial sizes of the input of the pooling.
        kernel: size of a window per spatial dimension.
        stride: distance between windows per spatial dimension.
        padding: zeros `(before, after)`.
        ceil_mode: whether windows extend beyond the end.
        count_include_pad: whether the padding counts.
        divisor_override: the divisor to use instead.

    Returns:
        `(batch, channels, *size)`.
    """


avg_pool_gradient.traits = Traits(costly=True)


@avg_pool_gradient.infer
def _(
    g: Type, *, size: tuple[Dim, ...], kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **_: Any
) -> Type:
    x = g.with_shape((*g.shape[:2], *size))
    ones = (1,) * len(kernel)
    check_pooling(x, kernel, stride, padding, ones)
    counts = pooled_counts(size, kernel, stride, padding, ones, ceil_mode)
    require(g.shape[2:] == counts, f"the cotangent g must have the spatial sizes {counts}")
    return x


@avg_pool_gradient.kernel
def _(
    g: Array, *, size: Sizes, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool, **divisor: Any
) -> Array:
    ones, counts = (1,) * len(kernel), g.shape[2:]
    reach = required_padding(size, counts, kernel, stride, padding, ones)
    share = g / _divisors(size, kernel, stride, padding, ceil_mode, **divisor).astype(g.dtype)
    full = [before + n + after for (before, after), n in zip(reach, size, strict=True)]
    result = np.zeros((*g.shape[:2], *full), g.dtype)
    view = windows(result, kernel, stride, ones, counts)
    for tap in taps(kernel):
        view[tap_index(tap)] += share
    return pad(result, tuple((-before, -after) for before, after in reach))


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


def _divisors(
    sizes: Any, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """Return the divisor of the sum of each window, `(*counts)`, or one number if it is the same for all."""
    if divisor_override is not None:
        return np.array(float(divisor_override))
    if not ceil_mode and (count_include_pad or not any(map(any, padding))):
        return np.array(float(prod(kernel)))
    if not all(isinstance(size, int) for size in sizes):
        raise ConversionError(f"this average pooling has an ONNX form only for fixed sizes, given {sizes}")
    counts = pooled_counts(sizes, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    divisors = np.ones(())
    for size, n, k, s, (before, after) in zip(sizes, counts, kernel, stride, padding, strict=True):
        starts = np.arange(n) * s - before
        ends = np.minimum(starts + k, size + after)
        lengths = ends - starts if count_include_pad else np.minimum(ends, size) - np.maximum(starts, 0)
        divisors = divisors[..., None] * lengths
    return divisors
