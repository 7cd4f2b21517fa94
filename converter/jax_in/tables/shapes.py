"""Primitives that move elements, and that reduce along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.ops import products, reduction, scanning, shaping, slicing, sorting
from ...unsupported import Unsupported
from .table import TABLE, cast, primitive


@primitive("reshape")
def reshape(reader: Any, x: Any, *, new_sizes: Sequence[int], dimensions: Any = None, **_: Any) -> Any:
    """lax.reshape"""
    if dimensions is not None:
        x = shaping.transpose(x, permutation=tuple(dimensions))
    return shaping.reshape(x, shape=tuple(new_sizes))


@primitive("transpose")
def transpose(reader: Any, x: Any, *, permutation: Sequence[int]) -> Any:
    """lax.transpose"""
    return shaping.transpose(x, permutation=tuple(permutation))


@primitive("squeeze")
def squeeze(reader: Any, x: Any, *, dimensions: Sequence[int]) -> Any:
    """lax.squeeze"""
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in dimensions)
    return shaping.reshape(x, shape=shape)


@primitive("expand_dims")
def expand_dims(reader: Any, x: Any, *, dimensions: Sequence[int]) -> Any:
    """lax.expand_dims"""
    sizes = iter(x.shape)
    rank = x.ndim + len(dimensions)
    return shaping.reshape(x, shape=tuple(1 if axis in dimensions else next(sizes) for axis in range(rank)))


@primitive("broadcast_in_dim")
def broadcast_in_dim(
    reader: Any, x: Any, *_: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], **__: Any
) -> Any:
    """lax.broadcast_in_dim: axis i of `x` becomes the axis `broadcast_dimensions[i]`."""
    axes = dict(zip(broadcast_dimensions, x.shape, strict=True))
    placed = tuple(axes.get(axis, 1) for axis in range(len(shape)))
    x = x if placed == tuple(x.shape) else shaping.reshape(x, shape=placed)
    return x if placed == tuple(shape) else shaping.expand(x, shape=tuple(shape))


@primitive("tile")
def tile(reader: Any, x: Any, *, reps: Sequence[int]) -> Any:
    """lax.tile: copies of a tensor side by side."""
    if not any(size != 1 and count != 1 for size, count in zip(x.shape, reps, strict=True)):
        return shaping.expand(x, shape=tuple(np.multiply(x.shape, reps).tolist()))
    apart = tuple(each for size in x.shape for each in (1, size))
    copies = tuple(each for pair in zip(reps, x.shape, strict=True) for each in pair)
    copied = shaping.expand(shaping.reshape(x, shape=apart), shape=copies)
    return shaping.reshape(copied, shape=tuple(np.multiply(x.shape, reps).tolist()))


@primitive("concatenate")
def concatenate(reader: Any, *xs: Any, dimension: int) -> Any:
    """lax.concatenate"""
    return slicing.concat(*xs, axis=dimension) if len(xs) > 1 else xs[0]


@primitive("stack")
def stack(reader: Any, *xs: Any, axis: int = 0, **_: Any) -> Any:
    """lax.stack: tensors along a new axis."""
    parts = [shaping.reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:])) for x in xs]
    return slicing.concat(*parts, axis=axis)


@primitive("split")
def split(reader: Any, x: Any, *, sizes: Sequence[int], axis: int) -> Any:
    """lax.split"""
    ends = np.cumsum(sizes).tolist()
    return tuple(
        slicing.slice(x, starts=(end - size,), stops=(end,), steps=(1,), axes=(axis,))
        for size, end in zip(sizes, ends, strict=True)
    )


@primitive("slice")
def slice(
    reader: Any, x: Any, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any = None
) -> Any:
    """lax.slice"""
    steps = (1,) * x.ndim if strides is None else tuple(strides)
    axes = tuple(range(x.ndim))
    return slicing.slice(x, starts=tuple(start_indices), stops=tuple(limit_indices), steps=steps, axes=axes)


@primitive("rev")
def rev(reader: Any, x: Any, *, dimensions: Sequence[int]) -> Any:
    """lax.rev"""
    return shaping.flip(x, axes=tuple(dimensions))


@primitive("pad")
def pad(reader: Any, x: Any, value: Any, *, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """lax.pad: padding before and after each axis, and between its elements."""
    constant = reader.constant_value(value)
    if constant is None:
        raise Unsupported("padding with a value that is known only when the program runs")
    number = constant.item()
    for axis, (_, _, between) in enumerate(padding_config):
        if between:
            x = _spread(x, axis, between, number)
    before, after = (tuple(config[end] for config in padding_config) for end in (0, 1))
    return slicing.pad(x, before=before, after=after, value=number) if any(before) or any(after) else x


def _spread(x: Any, axis: int, between: int, value: float) -> Any:
    """Put `between` elements between the elements along an axis."""
    size = x.shape[axis]
    if size < 2:
        return x
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    after = tuple(between if i == axis + 1 else 0 for i in range(len(shape)))
    x = slicing.pad(shaping.reshape(x, shape=shape), before=(0,) * len(shape), after=after, value=value)
    x = shaping.reshape(x, shape=(*shape[:axis], size * (between + 1), *shape[axis + 2 :]))
    stop = (size - 1) * (between + 1) + 1
    return slicing.slice(x, starts=(0,), stops=(stop,), steps=(1,), axes=(axis,))


@primitive("iota")
def iota(reader: Any, *, dtype: Any, shape: Sequence[int], dimension: int, **_: Any) -> Any:
    """lax.iota: indices along one axis."""
    return reader.constant(np.broadcast_to(_ramp(shape[dimension], len(shape), dimension), shape).astype(dtype))


def _ramp(size: int, rank: int, axis: int) -> np.ndarray[Any, Any]:
    return np.arange(size).reshape(tuple(size if i == axis else 1 for i in range(rank)))


def _reduction(op: Any) -> Any:
    def translate(reader: Any, x: Any, *, axes: Sequence[int], **_: Any) -> Any:
        return op(x, axes=tuple(axes), keepdims=False) if axes else x

    return translate


for _name, _op in {
    "reduce_sum": reduction.reduce_sum,
    "reduce_max": reduction.reduce_max,
    "reduce_min": reduction.reduce_min,
    "reduce_prod": products.reduce_prod,
    "reduce_and": reduction.reduce_all,
    "reduce_or": reduction.reduce_any,
}.items():
    TABLE[_name] = _reduction(_op)


def _cumulative(op: Any) -> Any:
    def translate(reader: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        if not reverse:
            return op(x, axis=axis)
        return shaping.flip(op(shaping.flip(x, axes=(axis,)), axis=axis), axes=(axis,))

    return translate


def _first(op: Any) -> Any:
    def call(x: Any, *, axis: int) -> Any:
        result = op(x, axis=axis)
        return result[0] if isinstance(result, tuple) else result

    return call


TABLE["cumsum"], TABLE["cumprod"] = _cumulative(scanning.cumsum), _cumulative(scanning.cumprod)
TABLE["cumlogsumexp"] = _cumulative(scanning.logcumsumexp)
TABLE["cummax"], TABLE["cummin"] = _cumulative(_first(scanning.cummax)), _cumulative(_first(scanning.cummin))


@primitive("argmax")
def argmax(reader: Any, x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
    """lax.argmax"""
    return cast(sorting.argmax(x, axis=axes[0], keepdims=False), index_dtype)


@primitive("argmin")
def argmin(reader: Any, x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
    """lax.argmin"""
    return cast(sorting.argmin(x, axis=axes[0], keepdims=False), index_dtype)


@primitive("sort")
def sort(reader: Any, *operands: Any, dimension: int, num_keys: int, **_: Any) -> Any:
    """lax.sort of one tensor."""
    if len(operands) > 1:
        raise Unsupported("several tensors that are sorted by one of them")
    result = sorting.sort(operands[0], axis=dimension)
    return (result[0] if isinstance(result, tuple) else result,)


@primitive("top_k")
def top_k(reader: Any, x: Any, *, k: int, **_: Any) -> Any:
    """lax.top_k: the largest elements along the last axis, and their places."""
    values, places = sorting.topk(x, k=k, axis=x.ndim - 1)
    return values, cast(places, np.int32)
