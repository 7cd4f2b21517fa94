"""Primitives that read and write at indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, elementwise, indexing, shaping
from ...unsupported import Unsupported
from .table import cast, primitive


@primitive("gather")
def gather(
    reader: Any, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Sequence[int], mode: Any = None, **_: Any
) -> Any:
    """lax.gather of whole slices, at indices along some axes, and of elements along one axis.

    Indices out of bounds are clipped, as JAX's `clip` mode does; in its `fill` mode, they would give NaN.
    """
    numbers = dimension_numbers
    places = cast(indices, INT64)
    if numbers.operand_batching_dims:
        return _gather_elements(reader, x, places, numbers, slice_sizes)
    axes = tuple(numbers.start_index_map)
    if tuple(numbers.collapsed_slice_dims) != tuple(sorted(axes)):
        return _gather_slices(reader, x, places, numbers, slice_sizes)
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    if any(slice_sizes[axis] != x.shape[axis] for axis in rest):
        raise Unsupported("slices that don't have all elements of an axis")
    limits = reader.constant(np.array([x.shape[axis] - 1 for axis in axes], np.int64))
    places = elementwise.minimum(elementwise.maximum(places, np.array(0, np.int64)), limits)
    if len(axes) == 1:
        flat = shaping.reshape(places, shape=tuple(places.shape[:-1]))
        moved = shaping.transpose(x, permutation=(axes[0], *rest))
        y = indexing.take(moved, flat, axis=0)
    else:
        y = indexing.gather_nd(shaping.transpose(x, permutation=(*axes, *rest)), places)
    return _arrange(y, places.ndim - 1, tuple(numbers.offset_dims))


def _arrange(y: Any, batch: int, offset: tuple[int, ...]) -> Any:
    """Return (batch axes, slice axes) with the slice axes at their places in the result."""
    slices = iter(range(batch, y.ndim))
    others = iter(range(batch))
    return shaping.transpose(y, permutation=tuple(next(slices if axis in offset else others) for axis in range(y.ndim)))


def _gather_elements(reader: Any, x: Any, places: Any, numbers: Any, slice_sizes: Sequence[int]) -> Any:
    """Elements along one axis, whose other axes are those of the indices: `take_along_axis`."""
    axes = tuple(numbers.start_index_map)
    batching = tuple(numbers.operand_batching_dims)
    covered = {*batching, *axes} == set(range(x.ndim)) and len(axes) == 1 and not numbers.offset_dims
    if not covered or tuple(numbers.collapsed_slice_dims) != axes:
        raise Unsupported("slices in a batch of indices")
    at = list(numbers.start_indices_batching_dims)
    other_axes = [axis for axis in range(places.ndim - 1) if axis not in at]
    flat = shaping.reshape(places, shape=tuple(places.shape[:-1]))
    count = int(np.prod([places.shape[axis] for axis in other_axes]))
    ordered = shaping.transpose(flat, permutation=(*at, *other_axes))
    ordered = shaping.reshape(ordered, shape=(*(x.shape[axis] for axis in batching), count))
    limit = np.array(x.shape[axes[0]] - 1, np.int64)
    ordered = elementwise.minimum(elementwise.maximum(ordered, np.array(0, np.int64)), limit)
    y = indexing.gather(shaping.transpose(x, permutation=(*batching, *axes)), ordered, axis=x.ndim - 1)
    y = shaping.reshape(y, shape=tuple(places.shape[axis] for axis in (*at, *other_axes)))
    return shaping.transpose(y, permutation=tuple(np.argsort([*at, *other_axes]).tolist()))


def _gather_slices(reader: Any, x: Any, places: Any, numbers: Any, slice_sizes: Sequence[int]) -> Any:
    """One slice, at a start for each axis: what indexing with a number or a range that isn't known makes."""
    if places.ndim != 1:
        raise Unsupported("several slices that don't have all elements of an axis")
    starts = {
        axis: shaping.reshape(indexing.take(places, np.array([index], np.int64), axis=0), shape=())
        for index, axis in enumerate(numbers.start_index_map)
    }
    for axis, size in enumerate(slice_sizes):
        if axis in starts and size != x.shape[axis]:
            x = _window(reader, x, starts[axis], size, axis)
    collapsed = tuple(numbers.collapsed_slice_dims)
    return shaping.reshape(x, shape=tuple(size for axis, size in enumerate(x.shape) if axis not in collapsed))


def _window(reader: Any, x: Any, start: Any, size: int, axis: int) -> Any:
    """`size` elements along an axis from a start, which is moved so that all of them are there."""
    start = elementwise.maximum(cast(start, INT64), np.array(0, np.int64))
    start = elementwise.minimum(start, np.array(x.shape[axis] - size, np.int64))
    return indexing.take(x, elementwise.add(start, reader.constant(np.arange(size))), axis=axis)


@primitive("dynamic_slice")
def dynamic_slice(reader: Any, x: Any, *starts: Any, slice_sizes: Sequence[int]) -> Any:
    """lax.dynamic_slice: a slice of fixed sizes whose start is known when the program runs."""
    for axis, (start, size) in enumerate(zip(starts, slice_sizes, strict=True)):
        if size != x.shape[axis]:
            x = _window(reader, x, start, size, axis)
    return x


@primitive("dynamic_update_slice")
def dynamic_update_slice(reader: Any, x: Any, update: Any, *starts: Any) -> Any:
    """lax.dynamic_update_slice: a tensor with a part of it replaced, whose start is known when the program runs."""
    inside: Any = None
    for axis, start in enumerate(starts):
        size, whole = update.shape[axis], x.shape[axis]
        if size == whole:
            continue
        begin = elementwise.maximum(cast(start, INT64), np.array(0, np.int64))
        begin = elementwise.minimum(begin, np.array(whole - size, np.int64))
        places = elementwise.sub(reader.constant(np.arange(whole)), begin)
        is_inside = comparison.logical_and(
            comparison.greater_equal(places, np.array(0, np.int64)), comparison.less(places, np.array(size, np.int64))
        )
        shape = tuple(whole if i == axis else 1 for i in range(x.ndim))
        is_inside = shaping.reshape(is_inside, shape=shape)
        inside = is_inside if inside is None else comparison.logical_and(inside, is_inside)
        places = elementwise.minimum(elementwise.maximum(places, np.array(0, np.int64)), np.array(size - 1, np.int64))
        update = indexing.take(update, places, axis=axis)
    return update if inside is None else elementwise.where(inside, update, x)


@primitive("scatter-add", "scatter")
def scatter(reader: Any, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **more: Any) -> Any:
    """lax.scatter and scatter_add of whole slices at indices along the first axes."""
    numbers = dimension_numbers
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    if numbers.operand_batching_dims or tuple(numbers.inserted_window_dims) != tuple(sorted(axes)):
        raise Unsupported("slices that don't have all elements of an axis")
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    places = cast(indices, INT64)
    batch = places.ndim - 1
    window = tuple(numbers.update_window_dims)
    if [updates.shape[axis] for axis in window] != [x.shape[axis] for axis in rest]:
        raise Unsupported("slices that don't have all elements of an axis")
    order = (*[axis for axis in range(updates.ndim) if axis not in window], *window)
    updates = shaping.transpose(updates, permutation=order)
    assert updates.ndim == batch + len(rest)
    moved = (*axes, *rest)
    reduction = "add" if more.get("update_jaxpr") is not None and reader.adds(more["update_jaxpr"]) else "none"
    y = indexing.scatter_nd(shaping.transpose(x, permutation=moved), places, updates, reduction=reduction)
    return shaping.transpose(y, permutation=tuple(np.argsort(moved).tolist()))
