"""Functions for ONNX operators of signal processing: DFT, STFT, windows, the Mel filter bank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..memory import check_table_size
from ..ops import elementwise, indexing, linear, shaping, slicing
from ..ops.common import normalize_axis
from ..ops.registry import Array, Tensor, require
from .registry import onnx_function
from .shaping import scalar


@onnx_function("DFT", "dft_length", "axis", symbolic=False)
def dft(input: Tensor, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    """DFT-20 over an axis of real numbers (..., 1) or pairs (..., 2), as a product with a matrix of roots of unity."""
    at = normalize_axis(scalar(axis, -2), input.ndim)
    require(
        at < input.ndim - 1 and input.shape[-1] in (1, 2),
        f"needed a signal axis before a last axis of 1 or 2, given axis {at} of {tuple(input.shape)}",
    )
    count = input.shape[at]
    default = 2 * (count - 1) if inverse and onesided else count
    length = scalar(dft_length, default)
    require(isinstance(length, int) and length > 0, f"needed a known length of the transform, given {length}")
    input_count = length // 2 + 1 if inverse and onesided else length
    x = _fit_length(input, at, input_count)
    output_count = length // 2 + 1 if onesided and not inverse else length
    check_table_size(output_count, input_count)
    angles = 2 * math.pi * (np.outer(np.arange(output_count), np.arange(input_count)) % length) / length
    cos, sin = np.cos(angles), np.sin(angles)
    if inverse:
        scale = np.full(input_count, 1.0 / length)
        if onesided:  # omits the conjugates of all but the first and, for an even length, the last
            scale[1 : input_count if length % 2 else input_count - 1] *= 2
        cos, sin = cos * scale, -sin * scale
    # (re + i im)(cos - i sin) for pairs (re, im): a matrix (results, parts out, elements, parts in)
    if input.shape[-1] == 1:
        parts = [cos] if inverse and onesided else [cos, -sin]
        matrix = np.stack(parts, axis=1)[:, :, :, None]
    elif inverse and onesided:
        matrix = np.stack([cos, sin], axis=-1)[:, None]
    else:
        matrix = np.stack([np.stack([cos, sin], axis=-1), np.stack([-sin, cos], axis=-1)], axis=1)
    return _apply_matrix(x, at, matrix)


def _fit_length(x: Tensor, axis: int, size: int) -> Any:
    """Crop, or pad with zeros, to a size along an axis."""
    if x.shape[axis] == size:
        return x
    none = (0,) * x.ndim
    after = tuple(size - x.shape[i] if i == axis else 0 for i in range(x.ndim))
    return slicing.pad(x, before=none, after=after)


def _apply_matrix(x: Tensor, axis: int, matrix: Array) -> Any:
    """Apply `matrix`, (results, parts out, elements, parts in), to an axis and the last one."""
    results, parts_out, elements, parts_in = matrix.shape
    rest = tuple(i for i in range(x.ndim - 1) if i != axis)
    order = (*rest, axis, x.ndim - 1)
    axis_last = shaping.transpose(x, permutation=order)
    lead = tuple(axis_last.shape[:-2])
    rows = shaping.reshape(axis_last, shape=(*lead, elements * parts_in))
    weights = matrix.reshape(results * parts_out, elements * parts_in).T
    products = linear.matmul(elementwise.cast(rows, dtype=FLOAT64), weights)
    y = shaping.reshape(elementwise.cast(products, dtype=x.dtype), shape=(*lead, results, parts_out))
    return shaping.transpose(y, permutation=tuple(order.index(i) for i in range(x.ndim)))


@onnx_function("STFT", "frame_step", "frame_length", symbolic=False)
def stft(
    signal: Tensor, frame_step: Any, window: Tensor | None = None, frame_length: Any = None, *, onesided: int = 1
) -> Any:
    """STFT-17: DFT of frames of the signal (batch, length, 1 or 2)."""
    step = scalar(frame_step)
    length = scalar(frame_length, window.shape[0] if window is not None else None)
    require(isinstance(length, int) and step > 0, "needed a window or a frame_length, and a positive step")
    size = signal.shape[1]
    require(isinstance(size, int), f"needed a known length, given {tuple(signal.shape)}")
    count = (size - length) // step + 1
    check_table_size(count, length)
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = indexing.take(signal, places, axis=1)
    if window is not None:
        frames = elementwise.mul(frames, shaping.reshape(window, shape=(window.shape[0], 1)))
    return dft(frames, None, 2, onesided=onesided)


def _register_window(name: str, coefficients: tuple[float, ...]) -> None:
    """Register a window that is the sum of cosines a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N) - ..."""

    @onnx_function(name, "size", symbolic=False)
    def window(size: Any, *, dtype: np.dtype[Any], periodic: int = 1) -> Any:
        count = scalar(size)
        check_table_size(count)
        n = np.arange(count) / max(count if periodic else count - 1, 1)
        waves = [(-1) ** k * a * np.cos(2 * math.pi * k * n) for k, a in enumerate(coefficients)]
        return np.sum(waves, axis=0).astype(dtype)

    window.__doc__ = f"{name}-17."


_register_window("HannWindow", (0.5, 0.5))
_register_window("HammingWindow", (25 / 46, 21 / 46))
_register_window("BlackmanWindow", (0.42, 0.5, 0.08))


@onnx_function(
    "MelWeightMatrix", "num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz",
    symbolic=False,
)  # fmt: skip
def mel_weight_matrix(
    num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any, upper_edge_hertz: Any, *,
    dtype: np.dtype[Any],
) -> Any:  # fmt: skip
    """MelWeightMatrix-17: triangles, evenly spaced in mels, over the bins of a spectrum."""
    bins, length = scalar(num_mel_bins), scalar(dft_length)
    low, high = (2595 * math.log10(1 + scalar(edge) / 700) for edge in (lower_edge_hertz, upper_edge_hertz))
    check_table_size(bins, length)
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // scalar(sample_rate)).astype(np.int64)
    places = np.arange(length // 2 + 1)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(centre > left, (places - left) / (centre - left), 1.0)
        falling = (right - places) / (right - centre)
    up = (places >= left) & (places <= centre)
    down = (places >= centre) & (places < right)
    return np.where(down, falling, np.where(up, rising, 0.0)).astype(dtype)
