"""Convolutions with a symbolic number of groups (one filter for each sample of the batch), which ONNX doesn't have.

A program has matrix products for them, one for each group.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ....runtime.ir.dims import Dim, product
from ....runtime.ops import linear, shaping, slicing
from ....runtime.tracing import SymbolicTensor

Sizes = Sequence[Any]
Pairs = Sequence[tuple[Any, Any]]


def conv(x: Any, weight: Any, bias: Any, stride: Sizes, pads: Pairs, dilation: Sizes, groups: Dim) -> Any:
    """ATen's convolution of (N, groups * C, *spatial) by (groups * D, C, *kernel) to (N, groups * D, *sizes)."""
    of_each = (groups, weight.shape[0] // groups, weight.shape[1], product(weight.shape[2:]))
    by_group = shaping.transpose(shaping.reshape(weight, shape=of_each), permutation=(0, 1, 3, 2))
    return _products(x, by_group, bias, weight.shape[2:], stride, pads, dilation)


def conv_transpose(
    x: Any, weight: Any, bias: Any, stride: Sizes, pads: Pairs, extra: Sizes, dilation: Sizes, groups: Dim
) -> Any:
    """ATen's transposed convolution with a weight (groups * C, D, *kernel).

    It is a convolution with flipped kernels of `x` with zeros between its elements.
    """
    kernel = weight.shape[2:]
    for axis, step in enumerate(stride, 2):
        x = _insert_zeros(x, axis, step)
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    around = [(r - b, r - a + e) for r, (b, a), e in zip(reach, pads, extra, strict=True)]
    turned = shaping.flip(weight, axes=tuple(range(2, weight.ndim)))
    of_each = (groups, weight.shape[0] // groups, weight.shape[1], product(kernel))
    by_group = shaping.transpose(shaping.reshape(turned, shape=of_each), permutation=(0, 2, 3, 1))
    return _products(x, by_group, bias, kernel, (1,) * len(kernel), around, dilation)


def _products(
    x: SymbolicTensor, by_group: SymbolicTensor, bias: Any, kernel: Sizes, stride: Sizes, pads: Pairs, dilation: Sizes
) -> Any:
    """The windows of each group, as columns, multiplied by its weight (groups, D, kernel elements, C)."""
    before, after = zip((0, 0), (0, 0), *pads, strict=True)
    if any((*before, *after)):
        x = slicing.pad(x, before=before, after=after)
    groups, count, elements, channels = by_group.shape
    sizes = [
        (size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    axes = tuple(range(2, x.ndim))
    windows = []
    for offsets in itertools.product(*map(range, kernel)):
        starts = tuple(offset * d for offset, d in zip(offsets, dilation, strict=True))
        stops = tuple(start + (size - 1) * s + 1 for start, size, s in zip(starts, sizes, stride, strict=True))
        window = slicing.slice(x, starts=starts, stops=stops, steps=tuple(stride), axes=axes)
        windows.append(shaping.reshape(window, shape=(x.shape[0], groups, channels, product(sizes))))
    columns = slicing.concat(*windows, axis=2) if len(windows) > 1 else windows[0]
    rows = shaping.reshape(by_group, shape=(groups, count, elements * channels))
    y = shaping.reshape(linear.matmul(rows, columns), shape=(x.shape[0], groups * count, *sizes))
    return y if bias is None else y + shaping.reshape(bias, shape=(1, groups * count, *(1 for _ in sizes)))


def _insert_zeros(x: SymbolicTensor, axis: int, step: int) -> Any:
    """Insert `step - 1` zeros between the elements along an axis."""
    if step == 1:
        return x
    shape = x.shape
    apart = shaping.reshape(x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    none = (0,) * apart.ndim
    after = tuple(step - 1 if i == axis + 1 else 0 for i in range(apart.ndim))
    filled = shaping.reshape(
        slicing.pad(apart, before=none, after=after), shape=(*shape[:axis], shape[axis] * step, *shape[axis + 1 :])
    )
    return slicing.slice(filled, starts=(0,), stops=((shape[axis] - 1) * step + 1,), steps=(1,), axes=(axis,))
