"""Vectors with a number for each channel of tensors (batch, channels, *spatial)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import reduction, shaping
from .registry import Array, OnnxGraph, Tensor


def channel_array(v: Array, x: Array) -> Array:
    """Like `per_channel`, for arrays."""
    return v.reshape((-1,) + (1,) * (x.ndim - 2))


def per_channel(v: Tensor, x: Tensor) -> Tensor:
    """Reshape a vector over channels to broadcast against `x`."""
    reshaped: Tensor = shaping.reshape(v, shape=v.shape + (1,) * (len(x.shape) - 2))
    return reshaped


def batch_axes(x: Any) -> tuple[int, ...]:
    """Return all axes except that of the channels."""
    return (0, *range(2, len(x.shape)))


def channel_sums(x: Tensor) -> Tensor:
    """Return the sums over all axes except that of the channels."""
    summed: Tensor = reduction.reduce_sum(x, axes=batch_axes(x))
    return summed


def onnx_per_channel(graph: OnnxGraph, v: str, rank: int) -> str:
    """Reshape a vector over channels, or `""`, to broadcast against a tensor of that rank."""
    return graph.op("Unsqueeze", v, graph.constant(np.arange(1, rank - 1))) if v and rank > 2 else v
