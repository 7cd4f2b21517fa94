"""Helpers for convolution, pooling and resizing: one number for all spatial dimensions, and unbatched inputs."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import shaping
from ....runtime.tracing import SymbolicTensor


def per_dimension(sizes: Any, count: int) -> tuple[Any, ...]:
    """`sizes`, a number or a list of one or `count` numbers, as `count` numbers."""
    listed = tuple(sizes) if isinstance(sizes, (list, tuple)) else (sizes,)
    return listed * count if len(listed) == 1 else listed


def both_sides(padding: Any, count: int) -> tuple[tuple[Any, Any], ...]:
    """`padding`, a number or a list of one or `count` numbers, as `(before, after)` of `count` dimensions."""
    return tuple((size, size) for size in per_dimension(padding, count))


def add_batch(x: SymbolicTensor, count: int) -> SymbolicTensor:
    """`x`, (channels, *spatial) with `count` spatial dimensions, as a batch of one; `x` itself if it is a batch."""
    if x.ndim == count + 2:
        return x
    result: SymbolicTensor = shaping.reshape(x, shape=(1, *x.shape))
    return result


def remove_batch(y: SymbolicTensor, x: SymbolicTensor) -> SymbolicTensor:
    """`y` without its batch dimension if `x` has none."""
    if y.ndim == x.ndim:
        return y
    result: SymbolicTensor = shaping.reshape(y, shape=y.shape[1:])
    return result
