"""Convolutions with one channel per group, which are too narrow for a matrix product of all windows.

An image lies row by row in memory, each row with its padding, in as many copies as the kernel has columns, each shifted
by one tap. The elements at the taps of one row of the kernel, in all windows, are then a matrix that is already there:
a run of each copy. The convolution is the sum of its products with the rows of the kernel. What is computed where a
window would extend over the end of a row of the image is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from .registry import Array
from .windows import Padding, Sizes, pad, taps

BLOCK_BYTES = 1 << 19
"""The copies of images are made in blocks of about this size, which stay in cache for all rows of the kernel."""


def is_depthwise(weight_channels: int, groups: int, out_channels: int) -> bool:
    """Whether each channel of an image makes one of the result."""
    return groups > 1 and weight_channels == 1 and out_channels == groups


def depthwise(x: Array, weight: Array, counts: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Array:
    """Return the convolution, `(batch, channels, *counts)`, of `x`, `(batch, channels, *spatial)`.

    Args:
        x: the images.
        weight: `(channels, 1, *kernel)`.
        counts: spatial sizes of the result.
        stride: distance between windows per spatial dimension.
        padding: zeros `(before, after)` per spatial dimension; negative numbers crop.
        dilation: distance between the taps per spatial dimension.
    """
    images, steps = _flattened(x, padding, stride[-1])
    kernel, starts = weight.shape[2:], _window_steps(steps, stride)
    length = _length(counts, starts)
    y = np.empty((*x.shape[:2], *counts), x.dtype)
    for block, copies in _shifted_copies(images, kernel[-1], dilation[-1], stride[-1]):
        rows = np.ascontiguousarray(weight[block[1]]).reshape(copies.shape[1], -1, 1, kernel[-1])
        sums = np.zeros((*copies.shape[:2], 1, length), x.dtype)
        for number, offset in enumerate(_offsets(kernel, dilation, steps)):
            sums += rows[:, number] @ copies[..., offset : offset + length]
        y[block] = _starts_of_windows(sums[:, :, 0], counts, starts)
    return y


def depthwise_weight_gradient(
    x: Array, g: Array, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> Array:
    """Return the gradient of `depthwise` in its weight, `(channels, 1, *kernel)`, for the cotangent `g`."""
    images, steps = _flattened(x, padding, stride[-1])
    counts, starts = g.shape[2:], _window_steps(steps, stride)
    length = _length(counts, starts)
    weight = np.zeros((x.shape[1], prod(kernel[:-1]), kernel[-1], 1), x.dtype)
    for block, copies in _shifted_copies(images, kernel[-1], dilation[-1], stride[-1]):
        cotangents = np.zeros((*copies.shape[:2], length, 1), x.dtype)
        _starts_of_windows(cotangents[..., 0], counts, starts)[...] = g[block]
        for number, offset in enumerate(_offsets(kernel, dilation, steps)):
            products = copies[..., offset : offset + length] @ cotangents
            weight[block[1], number] += products.sum(axis=0)
    return weight.reshape(x.shape[1], 1, *kernel)


def _flattened(x: Array, padding: Padding, stride: int) -> tuple[Array, Sizes]:
    """Return padded images with their spatial axes flattened, and the distances of neighbors in a copy.

    A copy has every element of index `stride` along the last axis, so that this axis is padded to a multiple of it.
    """
    before, after = padding[-1]
    width = x.shape[-1] + before + after
    padded = np.ascontiguousarray(pad(x, (*padding[:-1], (before, after + -width % stride))))
    sizes = padded.shape[2:]
    steps = tuple(prod(sizes[axis + 1 :]) // stride for axis in range(len(sizes) - 1))
    return padded.reshape(*padded.shape[:2], prod(sizes)), steps


def _window_steps(steps: Sizes, stride: Sizes) -> Sizes:
    """Return the distances in a copy between neighboring windows."""
    return (*(step * by for step, by in zip(steps, stride, strict=False)), 1)


def _shifted_copies(
    images: Array, columns: int, shift: int, stride: int
) -> Iterator[tuple[tuple[slice, slice], Array]]:
    """Yield the samples and channels of each block of flattened images, and its copies, each shifted by `shift` more.

    The copies are `(samples, channels, columns, places)`, of every element of index `stride`.
    """
    batch, channels, size = images.shape
    fitting = max(BLOCK_BYTES * stride // max(size * columns * images.itemsize, 1), 1)
    samples = max(fitting // max(channels, 1), 1)
    shifted = sliding_window_view(images, size - (columns - 1) * shift, axis=2)[:, :, ::shift, ::stride]
    for sample, channel in itertools.product(range(0, batch, samples), range(0, channels, fitting)):
        block = slice(sample, sample + samples), slice(channel, channel + fitting)
        yield block, np.ascontiguousarray(shifted[block])


def _offsets(kernel: Sizes, dilation: Sizes, steps: Sizes) -> list[int]:
    """Return the place of each row of taps in a copy relative to the start of its window."""
    return [sum(t * d * step for t, d, step in zip(tap, dilation, steps, strict=False)) for tap in taps(kernel[:-1])]


def _length(counts: Sizes, starts: Sizes) -> int:
    """Return the number of places from the start of the first window to that of the last."""
    return sum((count - 1) * step for count, step in zip(counts, starts, strict=True)) + 1


def _starts_of_windows(flat: Array, counts: Sizes, starts: Sizes) -> Array:
    """Return a view, `(samples, channels, *counts)`, of the places in `flat`, `(..., places)`, where windows start."""
    steps = (step * flat.strides[2] for step in starts)
    return as_strided(flat, (*flat.shape[:2], *counts), (*flat.strides[:2], *steps))
