"""Sliding windows over arrays, for convolution and pooling. Spatial axes are the ones after batch and channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..ir.dims import Dim
from .registry import Array, require

MAX_TAPS = 2**18

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


def window_span(kernel: int, dilation: int) -> int:
    """Return the number of positions that a window of `kernel` taps spans."""
    return dilation * (kernel - 1) + 1


def window_count(size: Dim, span: int, stride: int, padding: tuple[int, int]) -> Dim:
    """Return the number of windows that fit into a padded axis; `ShapeError` if none does."""
    space = size + padding[0] + padding[1] - span
    fits = not isinstance(space, int) or space >= 0
    require(fits, f"a window of {span} doesn't fit into {size} padded by {padding}: the kernel is too large")
    return space // stride + 1


def pad(x: Array, padding: Padding, value: float = 0) -> Array:
    """Pad each spatial axis of `x` with `value`; negative numbers crop. Without padding, return a view of `x`."""
    sizes = x.shape[2:]
    kept = [slice(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(padding, sizes, strict=True)]
    x = x[_spatial(kept)]
    if max(map(max, padding)) <= 0:
        return x
    padded_sizes = [n + b + a for (b, a), n in zip(padding, sizes, strict=True)]
    result = np.full((*x.shape[:2], *padded_sizes), value, x.dtype)
    inner = [slice(max(b, 0), n - max(a, 0)) for (b, a), n in zip(padding, padded_sizes, strict=True)]
    result[_spatial(inner)] = x
    return result


def windows(x: Array, kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Array:
    """Return a view `(batch, channels, *kernel, *counts)` of `x`; `view[tap_index(tap)]` are the elements at a tap.

    Writes to the view change `x`; elements of different taps overlap.
    """
    for size, k, s, d, count in zip(x.shape[2:], kernel, stride, dilation, counts, strict=True):
        if x.size and count and (count - 1) * s + window_span(k, d) > size:
            raise ValueError(f"{count} windows of {k} taps, stride {s}, dilation {d} don't fit into {size}")
    steps = x.strides[2:]
    tap_strides = tuple(d * step for d, step in zip(dilation, steps, strict=True))
    window_strides = tuple(s * step for s, step in zip(stride, steps, strict=True))
    return as_strided(x, (*x.shape[:2], *kernel, *counts), (*x.strides[:2], *tap_strides, *window_strides))


def onnx_pads(padding: Padding) -> Sizes:
    """Return padding in ONNX's order: all numbers before, then all numbers after."""
    return (*(before for before, _ in padding), *(after for _, after in padding))


def taps(kernel: Sizes) -> Iterator[Sizes]:
    """Yield all positions inside a window, in row-major order; `ShapeError` if there are too many to loop over."""
    shape = " x ".join(map(str, kernel))
    require(prod(kernel) <= MAX_TAPS, f"a window of {shape} elements is too large: at most {MAX_TAPS} are supported")
    return product(*map(range, kernel))


def tap_index(tap: Sizes) -> tuple[Any, ...]:
    """Return the index into `windows` for one tap."""
    return _spatial(tap)


def _spatial(indices: Iterable[Any]) -> tuple[Any, ...]:
    return (slice(None), slice(None), *indices)
