"""Convolution in one to three spatial dimensions, its transpose, and its weight gradient, all as matrix products.

The three are the partial derivatives of one trilinear form, so each is a gradient of the others and second derivatives
need no further ops. With `columns`, the windows of an image laid out as a matrix (im2col):

    conv:                  y = weight @ columns(x)
    conv_transpose:        columns(y) += weight.T @ x
    conv_weight_gradient:  weight = g @ columns(x).T
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..traits import Traits
from . import reduction
from .common import require_same_dtype
from .convolution_onnx import onnx_weight_gradient
from .depthwise import depthwise, depthwise_weight_gradient, is_depthwise
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .windows import Padding, Sizes, onnx_pads, pad, tap_index, taps, window_count, window_span, windows

Cotangents = tuple[Tensor | Callable[[], Tensor] | None, ...]

COLUMN_BYTES = 4 << 20
"""Columns are built in pieces of about this size, which stay in cache and bound the memory."""


@operator
def conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *,
    stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    """Cross-correlation, ATen `convolution` (not transposed), ONNX Conv-11.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions.
        weight: `(out channels, channels / groups, *kernel)`.
        bias: `(out channels,)`.
        stride: distance between windows per spatial dimension.
        padding: zeros `(before, after)` per spatial dimension; negative numbers crop.
        dilation: distance between the taps of a window per spatial dimension.
        groups: number of independent blocks of channels.

    Returns:
        `(batch, out channels, *counts)`,
        `counts = (spatial + before + after - dilation * (kernel - 1) - 1) // stride + 1`.
    """


conv.traits = Traits(products=True, costly=True, mixed_precision="half")


@conv.infer
def _(
    x: Type, weight: Type, bias: Type | None = None, *, stride: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Type:
    _check(x, weight, bias, weight.shape[0], stride, padding, dilation)
    require(
        x.shape[1] == weight.shape[1] * groups,
        f"weight is for {weight.shape[1] * groups} channels ({groups} groups), x has {x.shape[1]}",
    )
    require(weight.shape[0] % groups == 0, f"{weight.shape[0]} output channels don't divide into {groups} groups")
    return x.with_shape((x.shape[0], weight.shape[0], *_counts(x, weight.shape[2:], stride, padding, dilation)))


@conv.kernel
def _(
    x: Array, weight: Array, bias: Array | None = None, *,
    stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> Array:  # fmt: skip
    kernel = weight.shape[2:]
    counts = _counts(x, kernel, stride, padding, dilation)
    if is_depthwise(weight.shape[1], groups, len(weight)):
        y = depthwise(x, weight, counts, stride, padding, dilation)
    else:
        view = windows(pad(x, padding), kernel, stride, dilation, counts)
        y = np.empty((len(x), groups, len(weight) // groups, prod(counts)), x.dtype)
        matrices = weight.reshape(groups, len(weight) // groups, -1)
        for piece, samples, places in _pieces(view, counts):
            columns = view[piece].reshape(-1, groups, matrices.shape[2], places.stop - places.start)
            np.matmul(matrices, columns, out=y[samples, :, :, places])
        y = y.reshape(len(x), len(weight), *counts)
    if bias is not None:
        y += _per_channel(bias, len(counts))
    return y


@conv.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None, *,
    stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> Cotangents:  # fmt: skip
    kernel = weight.shape[2:]
    attributes: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    remainder = _remainder(x, kernel, stride, padding, dilation)
    return (
        lambda: conv_transpose(g, weight, output_padding=remainder, **attributes),
        lambda: conv_weight_gradient(x, g, kernel_shape=kernel, **attributes),
        None if bias is None else _bias_gradient(g),
    )


@conv.onnx
def _(
    graph: OnnxGraph, x: str, weight: str, bias: str = "", *,
    stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> str:  # fmt: skip
    x, padding = _crop(graph, x, padding)
    operands = (x, weight, bias) if bias else (x, weight)
    attributes: dict[str, Any] = {
        "strides": stride,
        "pads": onnx_pads(padding),
        "dilations": dilation,
        "group": groups,
    }
    result: str = graph.op("Conv", *operands, **attributes)
    return result


@operator
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *,
    stride: Sizes, padding: Padding, output_padding: tuple[Dim, ...], dilation: Sizes, groups: int,
) -> Tensor:  # fmt: skip
    """Transposed convolution, ATen `convolution` (transposed), ONNX ConvTranspose-11: the adjoint of `conv` in x.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions.
        weight: `(channels, out channels / groups, *kernel)`.
        bias: `(out channels,)`.
        stride: distance between windows in the result per spatial dimension.
        padding: positions to crop `(before, after)` per spatial dimension; negative numbers add zeros.
        output_padding: positions to add at the end per spatial dimension.
        dilation: distance between the taps of a window per spatial dimension.
        groups: number of independent blocks of channels.

    Returns:
        `(batch, out channels, *sizes)`,
        `sizes = (spatial - 1) * stride - before - after + dilation * (kernel - 1) + output_padding + 1`.
    """


conv_transpose.traits = Traits(products=True, costly=True, mixed_precision="half")


@conv_transpose.infer
def _(
    x: Type, weight: Type, bias: Type | None = None, *,
    stride: Sizes, padding: Padding, output_padding: tuple[Dim, ...], dilation: Sizes, groups: int,
) -> Type:  # fmt: skip
    out_channels = weight.shape[1] * groups
    _check(x, weight, bias, out_channels, stride, padding, dilation)
    require(x.shape[1] == weight.shape[0], f"weight is for {weight.shape[0]} channels, x has {x.shape[1]}")
    require(weight.shape[0] % groups == 0, f"{weight.shape[0]} channels don't divide into {groups} groups")
    require(len(output_padding) == len(stride), f"needed {len(stride)} output paddings, given {output_padding}")
    sizes = tuple(
        (size - 1) * s + window_span(k, d) - before - after + extra
        for size, k, s, (before, after), d, extra in zip(
            x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True
        )
    )
    require(all(not isinstance(size, int) or size > 0 for size in sizes), f"the result would have the sizes {sizes}")
    return x.with_shape((x.shape[0], out_channels, *sizes))


@conv_transpose.kernel
def _(
    x: Array, weight: Array, bias: Array | None = None, *,
    stride: Sizes, padding: Padding, output_padding: Sizes, dilation: Sizes, groups: int,
) -> Array:  # fmt: skip
    kernel, counts, out_channels = weight.shape[2:], x.shape[2:], weight.shape[1] * groups
    if is_depthwise(weight.shape[1], groups, len(weight)) and all(step == 1 for step in stride):
        y = _flipped_depthwise(x, weight, padding, output_padding, dilation)
    else:
        full = [(n - 1) * s + window_span(k, d) for n, s, k, d in zip(counts, stride, kernel, dilation, strict=True)]
        y = np.zeros((len(x), out_channels, *full), x.dtype)
        view = windows(y, kernel, stride, dilation, counts)
        matrices = weight.reshape(groups, len(weight) // groups, -1).swapaxes(1, 2)
        flat = x.reshape(len(x), groups, len(weight) // groups, prod(counts))
        for piece, samples, places in _pieces(view, counts):
            target = view[piece]
            # an outer product (one channel per group) is slow as a matrix product
            multiply = np.multiply if matrices.shape[2] == 1 else np.matmul
            columns = multiply(matrices, flat[samples, :, :, places]).reshape(target.shape)
            for tap in taps(kernel):
                target[tap_index(tap)] += columns[tap_index(tap)]
        y = pad(y, tuple((-b, extra - a) for (b, a), extra in zip(padding, output_padding, strict=True)))
    if bias is not None:
        y += _per_channel(bias, len(counts))
    return y


def _flipped_depthwise(x: Array, weight: Array, padding: Padding, output_padding: Sizes, dilation: Sizes) -> Array:
    """Return the transposed convolution of stride 1 with one channel per group: one with the flipped kernel."""
    kernel = weight.shape[2:]
    reach = [window_span(k, d) - 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = tuple(
        (r - before, r - after + extra)
        for r, (before, after), extra in zip(reach, padding, output_padding, strict=True)
    )
    counts = tuple(n + before + after - r for n, (before, after), r in zip(x.shape[2:], pads, reach, strict=True))
    ones = (1,) * len(kernel)
    return depthwise(x, np.flip(weight, tuple(range(2, weight.ndim))), counts, ones, pads, dilation)


@conv_transpose.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None, *,
    stride: Sizes, padding: Padding, output_padding: tuple[Dim, ...], dilation: Sizes, groups: int,
) -> Cotangents:  # fmt: skip
    # output padding of at least a stride (which dilation above stride allows) has positions that x doesn't reach
    padding = tuple(
        (before, after - extra // s * s) if isinstance(extra, int) else (before, after)
        for (before, after), extra, s in zip(padding, output_padding, stride, strict=True)
    )
    attributes: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (
        lambda: conv(g, weight, **attributes),
        lambda: conv_weight_gradient(g, x, kernel_shape=weight.shape[2:], **attributes),
        None if bias is None else _bias_gradient(g),
    )


@conv_transpose.onnx
def _(
    graph: OnnxGraph, x: str, weight: str, bias: str = "", *,
    stride: Sizes, padding: Padding, output_padding: tuple[Dim, ...], dilation: Sizes, groups: int,
) -> str:  # fmt: skip
    attributes: dict[str, Any] = {"strides": stride, "dilations": dilation, "group": groups}
    is_plain = all(
        isinstance(extra, int) and extra < s and min(pads) >= 0
        for extra, s, pads in zip(output_padding, stride, padding, strict=True)
    )
    result: str
    if is_plain:
        operands = (x, weight, bias) if bias else (x, weight)
        pads = onnx_pads(padding)
        result = graph.op("ConvTranspose", *operands, pads=pads, output_padding=output_padding, **attributes)
        return result
    ends = tuple(extra - after for (_, after), extra in zip(padding, output_padding, strict=True))
    sides = graph.dims((0, 0, *(-before for before, _ in padding), 0, 0, *ends))
    result = graph.op("Pad", graph.op("ConvTranspose", x, weight, **attributes), sides)
    if bias:
        shape = graph.constant(np.array([-1] + [1] * len(stride), np.int64))
        result = graph.op("Add", result, graph.op("Reshape", bias, shape))
    return result


@operator
def conv_weight_gradient(
    x: Tensor, g: Tensor, *, kernel_shape: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Tensor:
    """The gradient of `conv` in its weight; ATen `convolution_backward`, second output.

    Args:
        x: `(batch, channels, *spatial)`, the input of the convolution.
        g: `(batch, out channels, *counts)`, the cotangent of the result.
        kernel_shape: spatial sizes of the weight.
        stride: see `conv`.
        padding: zeros `(before, after)` per spatial dimension; negative numbers crop.
        dilation: distance between the taps of a window per spatial dimension.
        groups: number of independent blocks of channels.

    Returns:
        `(out channels, channels / groups, *kernel_shape)`.
    """


conv_weight_gradient.traits = Traits(products=True, costly=True)


@conv_weight_gradient.infer
def _(x: Type, g: Type, *, kernel_shape: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int) -> Type:
    weight = Type(x.dtype, (g.shape[1], x.shape[1] // groups, *kernel_shape))
    _check(x, weight, None, g.shape[1], stride, padding, dilation)
    require_same_dtype(x, g)
    expected = (x.shape[0], g.shape[1], *_counts(x, kernel_shape, stride, padding, dilation))
    require(g.shape == expected, f"the cotangent g must have the shape {expected}")
    require(x.shape[1] % groups == 0 and g.shape[1] % groups == 0, f"the channels don't divide into {groups} groups")
    return weight


@conv_weight_gradient.kernel
def _(
    x: Array, g: Array, *, kernel_shape: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Array:
    counts, out_channels = g.shape[2:], g.shape[1]
    if is_depthwise(x.shape[1] // groups, groups, out_channels):
        return depthwise_weight_gradient(x, g, kernel_shape, stride, padding, dilation)
    view = windows(pad(x, padding), kernel_shape, stride, dilation, counts)
    flat = g.reshape(len(g), out_channels, prod(counts))
    shape = (groups, out_channels // groups, x.shape[1] // groups * prod(kernel_shape))
    weight = np.zeros(shape, x.dtype)
    for piece, samples, places in _pieces(view, counts):
        # the samples of a piece are part of the contracted axis, so that one product computes the sum
        columns = np.moveaxis(view[piece], 0, 1 + len(counts))
        cotangents = flat[samples, :, places].swapaxes(0, 1).reshape(*shape[:2], -1)
        weight += cotangents @ columns.reshape(groups, shape[2], -1).swapaxes(1, 2)
    return weight.reshape(out_channels, x.shape[1] // groups, *kernel_shape)


@conv_weight_gradient.vjp
def _(
    h: Tensor, y: Tensor, x: Tensor, g: Tensor, *,
    kernel_shape: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> Cotangents:  # fmt: skip
    attributes: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    remainder = _remainder(x, kernel_shape, stride, padding, dilation)
    return lambda: conv_transpose(g, h, output_padding=remainder, **attributes), lambda: conv(x, h, **attributes)


conv_weight_gradient.onnx(onnx_weight_gradient)


def _check(
    x: Type, weight: Type, bias: Type | None, out_channels: Dim, stride: Sizes, padding: Padding, dilation: Sizes
) -> None:
    spatial = x.rank - 2
    require(1 <= spatial <= 3, f"needed one to three spatial dimensions after (batch, channels), x has rank {x.rank}")
    require(weight.rank == x.rank, f"weight has rank {weight.rank}, x has {x.rank}")
    for name, values in {"stride": stride, "padding": padding, "dilation": dilation}.items():
        require(len(values) == spatial, f"{name} {values} must have an entry per spatial dimension: {spatial}")
    require(min(*stride, *dilation) >= 1, f"stride {stride} and dilation {dilation} must be positive")
    require_same_dtype(x, weight, *([] if bias is None else [bias]))
    require(bias is None or bias.shape == (out_channels,), f"bias must have the shape ({out_channels},)")


def _counts(x: Any, kernel: Any, stride: Sizes, padding: Padding, dilation: Sizes) -> tuple[Any, ...]:
    geometry = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    return tuple(window_count(size, window_span(k, d), s, pads) for size, k, s, pads, d in geometry)


def _remainder(x: Tensor, kernel: Any, stride: Sizes, padding: Padding, dilation: Sizes) -> tuple[Dim, ...]:
    """Return the number of positions that no window reaches: the output padding of the transposed convolution."""
    geometry = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    return tuple((size + b + a - window_span(k, d)) % s for size, k, s, (b, a), d in geometry)


def _pieces(view: Array, counts: Sizes) -> Iterator[tuple[tuple[Any, ...], slice, slice]]:
    """Cut the columns of `view` into pieces of about `COLUMN_BYTES`, by samples and by rows (the first spatial axis).

    Yields the index of the piece in `view`, its samples, and its places in the flattened spatial axes.
    """
    batch, row_places = len(view), prod(counts[1:])
    row_bytes = max(view.nbytes // max(batch * counts[0], 1), 1)
    rows = min(max(COLUMN_BYTES // row_bytes, 1), counts[0])
    samples = max(COLUMN_BYTES // (row_bytes * counts[0]), 1)
    whole = (slice(None),) * (len(counts) - 1)
    for sample in range(0, batch, samples):
        chosen = slice(sample, sample + samples)
        for row in range(0, counts[0], rows):
            stop = min(row + rows, counts[0])
            yield (chosen, ..., slice(row, stop), *whole), chosen, slice(row * row_places, stop * row_places)


def _per_channel(bias: Array, spatial: int) -> Array:
    return bias.reshape(-1, *[1] * spatial)


def _bias_gradient(g: Tensor) -> Any:
    return reduction.reduce_sum(g, axes=(0, *range(2, g.ndim)))


def _crop(graph: OnnxGraph, x: str, padding: Padding) -> tuple[str, Padding]:
    """Crop by negative padding, which ONNX convolutions don't support; return the result and the remaining padding."""
    if min(map(min, padding)) >= 0:
        return x, padding
    cut = onnx_pads(tuple((min(before, 0), min(after, 0)) for before, after in padding))
    half = len(padding)
    pads = graph.constant(np.array((0, 0, *cut[:half], 0, 0, *cut[half:]), np.int64))
    return graph.op("Pad", x, pads), tuple((max(before, 0), max(after, 0)) for before, after in padding)
