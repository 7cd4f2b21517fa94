"""Less common kinds of pooling: power-average pooling, fractional max pooling, max unpooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import int64
from ..common.tensor import create, from_array, is_known
from ..ir.dims import product
from ..ops import boundary, creation, elementwise, indexing, shaping, slicing
from ..ops.sorting import argmax
from ..ops.windows import Sizes
from .arguments import known_size, require_integers
from .geometry import per_axis
from .joining import part
from .operands import as_tensor, require_floating
from .pooling import avg_pool1d, avg_pool2d, with_batch
from .public_op import public_op
from .random import rand

# ---- power-average pooling ----


@public_op()
def lp_pool1d(x: Any, norm_type: float, kernel_size: int, stride: int | None = None, ceil_mode: bool = False) -> Any:
    """Power-average pooling: `(sum of x**p)**(1 / p)` of each window, p = `norm_type` (ATen `lp_pool1d`).

    Args:
        x: (N, C, L) or (C, L), floating-point.
        norm_type: p, not 0.
        kernel_size: the size of a window.
        stride: the step between windows; `kernel_size` if it is None.
        ceil_mode: whether to include windows that start inside and extend beyond the end.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a size is out of range, p is 0, or `x` has another number of dimensions.
    """
    checks.of_type(kernel_size, "kernel_size", int, of="lp_pool1d")
    return _lp_pool(avg_pool1d, x, norm_type, (kernel_size,), stride, ceil_mode, of="lp_pool1d")


@public_op()
def lp_pool2d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """`lp_pool1d` of (N, C, H, W) or (C, H, W); `kernel_size` and `stride` are an int or one for each axis."""
    kernel = per_axis(kernel_size, "kernel_size", 2, of="lp_pool2d")
    return _lp_pool(avg_pool2d, x, norm_type, kernel, stride, ceil_mode, of="lp_pool2d")


def _lp_pool(mean: Any, x: Any, norm_type: float, kernel: Sizes, stride: Any, ceil_mode: bool, *, of: str) -> Any:
    checks.of_type(norm_type, "norm_type", (int, float), of=of)
    if norm_type == 0:
        raise ValueError(f"For '{of}', 'norm_type' must not be 0, but got {norm_type}")
    powers = elementwise.pow(require_floating(x, "x", of=of), float(norm_type))
    means = mean(powers, kernel, kernel if stride is None else stride, 0, ceil_mode)
    return elementwise.pow(means * float(product(kernel)), 1.0 / norm_type)


# ---- fractional pooling ----


@public_op()
def fractional_max_pool2d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:  # fmt: skip
    """Fractional max pooling: max pooling with random steps between windows (Graham 2014).

    Same as ATen `fractional_max_pool2d`.

    Args:
        input: (N, C, H, W) or (C, H, W), floating-point.
        kernel_size: the size of a window, an int or one for each axis.
        output_size: the number of windows, an int or one for each axis.
        output_ratio: used without `output_size`: the output sizes as fractions of the input sizes, in (0, 1).
        return_indices: whether to also return the positions of the maxima: int64 indices into the flattened plane.
        _random_samples: (N, C, 2), samples in [0, 1) for width and height; None for new samples.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a size is out of range, or neither size nor ratio is given.
    """
    return _fractional(input, kernel_size, output_size, output_ratio, return_indices, _random_samples, 2)


@public_op()
def fractional_max_pool3d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:  # fmt: skip
    """`fractional_max_pool2d` of (N, C, D, H, W) or (C, D, H, W); samples (N, C, 3) are for depth, height, width."""
    return _fractional(input, kernel_size, output_size, output_ratio, return_indices, _random_samples, 3)


def _fractional(
    input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any, count: int
) -> Any:
    of = f"fractional_max_pool{count}d"
    images = require_floating(input, of=of)
    x = with_batch(images, count, of=of)
    batch, channels, *spatial = x.shape
    sizes = tuple(known_size(size, f"For '{of}', the size of the input") for size in spatial)
    kernel = per_axis(kernel_size, "kernel_size", count, of=of)
    windows = _window_counts(sizes, output_size, output_ratio, of=of)
    if any(n + k - 1 > size for n, k, size in zip(windows, kernel, sizes, strict=True)):
        raise ValueError(f"For '{of}', {windows} windows of {kernel} elements don't fit into {sizes}")
    sampled = rand(batch, channels, count) if samples is None else as_tensor(samples, "_random_samples", of=of)
    if tuple(sampled.shape) != (batch, channels, count):
        raise ValueError(
            f"For '{of}', '_random_samples' must have shape {(batch, channels, count)}, but got {tuple(sampled.shape)}"
        )
    order = (1, 0) if count == 2 else range(count)  # in two dimensions, ATen's samples have the width first
    rows = columns = 1  # (batch, channels, rows, columns): the places of the elements of each window
    places: Any = from_array(np.zeros((1, 1, 1, 1, 1, 1), np.int64))
    for axis, size, k, n in zip(order, sizes, kernel, windows, strict=True):
        starts = _starts(part(sampled, 2, axis, axis + 1), size, k, n)  # (batch, channels, n)
        taps = shaping.reshape(starts, shape=(batch, channels, 1, n, 1, 1)) + from_array(np.arange(k))
        rows, columns = rows * n, columns * k
        places = shaping.reshape(places * size + taps, shape=(batch, channels, rows, 1, columns, 1))
    flat = shaping.reshape(x, shape=(batch, channels, product(sizes)))
    candidates = shaping.reshape(places, shape=(batch, channels, rows * columns))
    values = indexing.gather(boundary.stop_gradient(flat), candidates, axis=2)
    best = argmax(shaping.reshape(values, shape=(batch, channels, rows, columns)), axis=3, keepdims=True)
    places = shaping.reshape(places, shape=(batch, channels, rows, columns))
    chosen = shaping.reshape(indexing.gather(places, best, axis=3), shape=(batch, channels, rows))
    shape = (*images.shape[: images.ndim - count], *windows)
    y = shaping.reshape(indexing.gather(flat, chosen, axis=2), shape=shape)
    return (y, shaping.reshape(chosen, shape=shape)) if return_indices else y


def _window_counts(sizes: Sizes, output_size: Any, output_ratio: Any, *, of: str) -> Sizes:
    if output_size is not None:
        return per_axis(output_size, "output_size", len(sizes), of=of)
    if output_ratio is None:
        raise ValueError(f"For '{of}', 'output_size' or 'output_ratio' must be given, but both are None")
    ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * len(sizes)
    if len(ratios) != len(sizes):
        raise ValueError(f"For '{of}', 'output_ratio' must be a number or {len(sizes)}, but got {output_ratio}")
    counts = (int(n * checks.in_range(r, "output_ratio", "(0, 1)", of=of)) for n, r in zip(sizes, ratios, strict=True))
    return tuple(max(count, 1) for count in counts)


def _starts(samples: Any, size: int, kernel: int, windows: int) -> Any:
    """Return the start positions of the windows along one axis, for samples (..., 1): (..., windows), int64."""
    last = create(creation.full, shape=tuple(samples.shape), value=size - kernel, dtype=int64)
    if windows == 1:
        return last
    step = (size - kernel) / (windows - 1)
    starts = (samples + from_array(np.arange(windows - 1, dtype=samples.dtype))) * step
    first = elementwise.cast(samples * step, dtype=int64)
    return slicing.concat(elementwise.cast(starts, dtype=int64) - first, last, axis=samples.ndim - 1)


# ---- max unpooling ----


@public_op()
def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Inverse of max pooling: put its outputs at their positions, with zeros elsewhere (ATen `max_unpool2d`).

    Args:
        x: outputs of the pooling, (N, C, L) or (C, L).
        indices: their positions, as the pooling returns them with `return_indices`.
        kernel_size: the kernel size of the pooling, an int or one for each axis; so are `stride` and `padding`.
        stride: the stride of the pooling; `kernel_size` if it is None.
        padding: the padding of the pooling.
        output_size: the spatial sizes of the input of the pooling; None or () for the sizes that exactly fit all
            windows.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: shapes differ, a size is out of range, or an index lies outside of the output.
    """
    return _unpool(x, indices, kernel_size, stride, padding, output_size, 1)


@public_op()
def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """`max_unpool1d` of (N, C, H, W) or (C, H, W)."""
    return _unpool(x, indices, kernel_size, stride, padding, output_size, 2)


@public_op()
def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """`max_unpool1d` of (N, C, D, H, W) or (C, D, H, W)."""
    return _unpool(x, indices, kernel_size, stride, padding, output_size, 3)


def _unpool(x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any, count: int) -> Any:
    of = f"max_unpool{count}d"
    x, indices = as_tensor(x, "x", of=of), require_integers(indices, "indices", of=of)
    if tuple(x.shape) != tuple(indices.shape):
        raise ValueError(
            f"For '{of}', 'x' and 'indices' must have one shape, but got {tuple(x.shape)} and {tuple(indices.shape)}"
        )
    batch = with_batch(x, count, of=of)
    kernel = per_axis(kernel_size, "kernel_size", count, of=of)
    steps = kernel if stride is None else per_axis(stride, "stride", count, of=of)
    pads = per_axis(padding, "padding", count, of=of, least=0)
    least = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(batch.shape[2:], steps, kernel, pads, strict=True))
    sizes = _output_sizes(least, steps, output_size, of=of)
    rows = product(batch.shape[:2])
    places = shaping.reshape(indices, shape=(rows, product(batch.shape[2:])))
    size = known_size(product(sizes), f"For '{of}', the size of the output")
    _require_inside(places, size, of=of)
    zeros = creation.full_like(x, 0, (rows, size))
    filled = indexing.scatter(zeros, places, shaping.reshape(x, shape=tuple(places.shape)), axis=1)
    return shaping.reshape(filled, shape=(*x.shape[: x.ndim - count], *sizes))


def _output_sizes(least: Sizes, steps: Sizes, output_size: Any, *, of: str) -> Sizes:
    if output_size is None or len(checks.of_type(output_size, "output_size", (tuple, list), of=of)) == 0:
        return least
    if len(output_size) < len(least):
        raise ValueError(f"For '{of}', 'output_size' must hold {len(least)} sizes, but got {output_size}")
    sizes = tuple(output_size[-len(least) :])
    if any(not n - s < size < n + s for n, s, size in zip(least, steps, sizes, strict=True)):
        raise ValueError(f"For '{of}', 'output_size' must be {least}, give or take less than {steps}, but got {sizes}")
    return sizes


def _require_inside(places: Any, size: int, *, of: str) -> None:
    """Raise `ValueError` unless the positions, if known, lie in [0, size)."""
    values = np.asarray(places) if is_known(places) else np.zeros(0)
    if values.size and not (values.min() >= 0 and values.max() < size):
        raise ValueError(f"For '{of}', 'indices' must lie in [0, {size}), but got {values.min()} to {values.max()}")
