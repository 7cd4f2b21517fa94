"""Attention heads of symbolic tensors: splitting, joining, slicing and rotation."""

from __future__ import annotations

from typing import Any

from ....runtime.errors import ShapeError
from ....runtime.ops import shaping, slicing


def part(x: Any, axis: int, start: Any, stop: Any) -> Any:
    """The elements from `start` to `stop` along an axis."""
    return slicing.slice(x, starts=(start,), stops=(stop,), steps=(1,), axes=(axis,))


def item(x: Any, axis: int, position: int) -> Any:
    """One element along an axis, without the axis."""
    row = part(x, axis, position, position + 1)
    return shaping.reshape(row, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


def shape_of_heads(x: Any, count: Any) -> tuple[Any, ...]:
    """The shape of the result of `split_heads`; that of `x` if `count` is None."""
    if count is None:
        return tuple(x.shape)
    batch, length, features = x.shape
    if isinstance(features, int) and isinstance(count, int) and (count < 1 or features % count):
        raise ShapeError(f"{features} features can't be split into {count} heads")
    return batch, count, length, features // count


def split_heads(x: Any, count: Any) -> Any:
    """Reshape (batch, length, features) to (batch, heads, length, features of a head)."""
    batch, _, length, size = shape_of_heads(x, count)
    split = shaping.reshape(x, shape=(batch, length, count, size))
    return shaping.transpose(split, permutation=(0, 2, 1, 3))


def join_heads(x: Any) -> Any:
    """The inverse of `split_heads`."""
    batch, count, length, size = x.shape
    return shaping.reshape(shaping.transpose(x, permutation=(0, 2, 1, 3)), shape=(batch, length, count * size))


def align(x: Any, shape: tuple[Any, ...]) -> Any:
    """Prepare `x` to broadcast to `shape`: sizes that can't be compared before run time are assumed to fit."""
    target = shape[len(shape) - x.ndim :]
    sizes = tuple(
        size if size in (1, other) or (isinstance(size, int) and isinstance(other, int)) else other
        for size, other in zip(x.shape, target, strict=True)
    )
    return x if sizes == tuple(x.shape) else shaping.reshape(x, shape=sizes)


def rotate(x: Any, cos: Any, sin: Any, *, interleaved: bool) -> Any:
    """Rotary position embedding (Su et al. 2021) of heads.

    Args:
        x: (batch, heads, length, features).
        cos: cosines of the angles, (batch or 1, length, rotated / 2); features beyond the rotated ones don't change.
        sin: sines of the angles.
        interleaved: whether pairs are adjacent; otherwise they are the elements of the two halves.
    """
    half = cos.shape[-1]
    turned = half * 2
    tables = [align(table, (x.shape[0], x.shape[2], half)) for table in (cos, sin)]
    cos, sin = (shaping.reshape(table, shape=(table.shape[0], 1, *table.shape[1:])) for table in tables)
    if interleaved:
        pairs = shaping.reshape(part(x, 3, 0, turned), shape=(*x.shape[:3], half, 2))
        first, second = (item(pairs, 4, i) for i in (0, 1))
    else:
        first, second = part(x, 3, 0, half), part(x, 3, half, turned)
    results = [first * cos - second * sin, first * sin + second * cos]
    if interleaved:
        spread = slicing.concat(*(shaping.reshape(r, shape=(*r.shape, 1)) for r in results), axis=4)
        whole = shaping.reshape(spread, shape=(*x.shape[:3], turned))
    else:
        whole = slicing.concat(*results, axis=3)
    return whole if turned == x.shape[3] else slicing.concat(whole, part(x, 3, turned, x.shape[3]), axis=3)
