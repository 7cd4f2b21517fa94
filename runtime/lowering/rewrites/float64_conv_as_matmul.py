"""`float64_conv_as_matmul`: replaces convolutions and average pools in float64 by matrix products and sums.

On the CPU, ONNX Runtime has kernels for them only in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...ir.dims import Dim, maximum, product
from ...ir.types import FLOAT64, INT64, Node
from ...ops import creation, reduction, shaping
from ...ops.indexing import take
from ...ops.slicing import pad
from ...ops.windows import Padding, Sizes, window_span
from ...tracing import Builder, SymbolicTensor
from .rewrite import take_over_outputs

Shape = tuple[Dim, ...]


def float64_conv_as_matmul(builder: Builder, node: Node) -> bool:
    """The rule for `rewrite`; empty results are lowered separately."""
    y = node.outputs[0]
    if node.op not in FORMS or y.dtype != FLOAT64 or 0 in (y.type.sizes or ()):
        return False
    operands = (None if value is None else SymbolicTensor(builder, value) for value in node.inputs)
    FORMS[node.op](y.shape, *operands, **node.attributes)
    take_over_outputs(builder, node)
    return True


def _conv(
    shape: Shape, x: SymbolicTensor, weight: SymbolicTensor, bias: SymbolicTensor | None = None, *,
    stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> Any:  # fmt: skip
    """Multiply the windows of each group, as the columns of a matrix, by the weight."""
    kernel = tuple(int(n) for n in weight.shape[2:])
    rank, counts = len(kernel), shape[2:]
    x = _pad(x, padding)
    for axis in reversed(range(rank)):
        x = _windows(x, axis + 2, kernel[axis], counts[axis], stride[axis], dilation[axis])
    taps_first = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    rows = x.shape[1] // groups * prod(kernel)
    columns = shaping.transpose(x, permutation=taps_first)
    columns = shaping.reshape(columns, shape=(x.shape[0], groups, rows, product(counts)))
    matrices = shaping.reshape(weight, shape=(groups, weight.shape[0] // groups, rows))
    y = shaping.reshape(matrices @ columns, shape=shape)
    return y if bias is None else y + shaping.reshape(bias, shape=(bias.shape[0], *[1] * rank))


def _conv_transpose(
    shape: Shape, x: SymbolicTensor, weight: SymbolicTensor, bias: SymbolicTensor | None = None, *,
    stride: Sizes, padding: Padding, output_padding: Shape, dilation: Sizes, groups: int,
) -> Any:  # fmt: skip
    """Convolve `x`, with zeros between its elements, with the flipped weight, at stride 1."""
    channels, out_channels, *kernel = weight.shape
    spatial = tuple(range(2, 2 + len(kernel)))
    pads = []
    for axis, k, s, (before, after), d, extra in zip(
        spatial, kernel, stride, padding, dilation, output_padding, strict=True
    ):
        x = _insert_zeros(x, axis, s)
        reach = window_span(int(k), d) - 1
        pads.append((reach - before, reach - after + extra - (s - 1)))
    by_group = shaping.reshape(weight, shape=(groups, channels // groups, out_channels, *kernel))
    flipped = shaping.transpose(by_group, permutation=(0, 2, 1, *(axis + 1 for axis in spatial)))
    flipped = shaping.reshape(flipped, shape=(groups * out_channels, channels // groups, *kernel))
    flipped, ones = shaping.flip(flipped, axes=spatial), (1,) * len(kernel)
    return _conv(shape, x, flipped, bias, stride=ones, padding=tuple(pads), dilation=dilation, groups=groups)


def _avg_pool(shape: Shape, x: SymbolicTensor, **attributes: Any) -> Any:
    return _sums(x, shape[2:], **_geometry(attributes)) / _divisors(x, x.shape[2:], shape[2:], **attributes)


def _avg_pool_gradient(shape: Shape, g: SymbolicTensor, *, size: Shape, **attributes: Any) -> Any:
    """Spread the cotangent of each window over its elements."""
    kernel, stride, padding = _geometry(attributes).values()
    share = g / _divisors(g, size, g.shape[2:], **attributes)
    for i, (count, k, s, (before, _)) in enumerate(zip(g.shape[2:], kernel, stride, padding, strict=True)):
        axis = i + 2
        end = size[i] + before - count * s  # negative if the last window extends beyond the image
        share = _pad_axis(_insert_zeros(share, axis, s), axis, (k - 1 - before, end))
        share = reduction.reduce_sum(_windows(share, axis, k, size[i], 1, 1), axes=(axis,))
    return share


FORMS: dict[str, Callable[..., Any]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "avg_pool": _avg_pool,
    "avg_pool_gradient": _avg_pool_gradient,
}
"""By op: takes the shape of the result, operands and attributes; the last node that it appends computes the result."""


def _geometry(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: attributes[name] for name in ("kernel", "stride", "padding")}


def _sums(x: SymbolicTensor, counts: Shape, *, kernel: Sizes, stride: Sizes, padding: Padding) -> Any:
    """Return the sums of windows, the last of which may extend beyond the padding."""
    x = _pad(x, padding)
    for i, (k, s, count) in enumerate(zip(kernel, stride, counts, strict=True)):
        axis, reach = i + 2, (count - 1) * s + k
        missing = reach - x.shape[axis]
        x = _pad_axis(x, axis, (0, maximum(missing, 0)))
        x = reduction.reduce_sum(_windows(x, axis, k, count, s, 1), axes=(axis,))
    return x


def _divisors(
    x: SymbolicTensor, sizes: Shape, counts: Shape, *, kernel: Sizes, stride: Sizes, padding: Padding, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    """Return the divisor of the sum of each window: the number of its elements, if the windows differ."""
    if divisor_override is not None:
        return float(divisor_override)
    if not ceil_mode and (count_include_pad or not any(map(any, padding))):
        return float(prod(kernel))
    ones, none = creation.full_like(x, 1.0, (1, 1, *sizes)), ((0, 0),) * len(sizes)
    if count_include_pad:
        ones, padding = _pad(ones, padding, 1.0), none
    return _sums(ones, counts, kernel=kernel, stride=stride, padding=padding)


def _windows(x: SymbolicTensor, axis: int, size: int, count: Dim, stride: int, dilation: int) -> SymbolicTensor:
    """Replace `axis` by two: the taps of a window, and the windows."""
    starts = x.builder.create(creation.arange, start=0, stop=count, dtype=INT64) * stride
    windows: SymbolicTensor = take(x, starts + np.arange(size)[:, None] * dilation, axis=axis)
    return windows


def _insert_zeros(x: SymbolicTensor, axis: int, step: int) -> Any:
    """Insert `step - 1` zeros after each element along `axis`."""
    if step == 1:
        return x
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    apart = shaping.reshape(x, shape=(*before, 1, *after))
    return shaping.reshape(_pad_axis(apart, axis + 1, (0, step - 1)), shape=(*before[:-1], before[-1] * step, *after))


def _pad(x: SymbolicTensor, padding: tuple[tuple[Dim, Dim], ...], value: float = 0.0) -> Any:
    """Pad the spatial axes of `x`; negative numbers crop."""
    if not any(map(any, padding)):
        return x
    before, after = zip(*padding, strict=True)
    return pad(x, before=(0, 0, *before), after=(0, 0, *after), value=value)


def _pad_axis(x: SymbolicTensor, axis: int, padding: tuple[Dim, Dim]) -> Any:
    """Pad one axis of `x` with zeros; negative numbers crop."""
    if padding == (0, 0):
        return x
    none = [(0, 0)] * x.ndim
    before, after = zip(*none[:axis], padding, *none[axis + 1 :], strict=True)
    return pad(x, before=before, after=after)
