"""Diagonals of two axes, read and written as slices with a step, composed of other ops.

A step can't be symbolic. With a symbolic number of columns n, the elements of a matrix, starting with the first one of
the diagonal, are laid out in rows of n + 1, so that the diagonal is the first column.
"""

from __future__ import annotations

from typing import Any

from ..ir.dims import Dim
from . import comparison, creation, elementwise, indexing, shaping, slicing


def extract_diagonal(x: Any, first: int, second: int, offset: int = 0, length: Dim | None = None) -> Any:
    """Return the diagonal of two axes as the last axis; `length` defaults to the size of the first of them."""
    flat, _ = _flatten_matrices(x, first, second)
    columns, count = x.shape[second], x.shape[first] if length is None else length
    start = _start(columns, offset)
    if isinstance(columns, int):
        return _slice_last(flat, start, start + (count - 1) * (columns + 1) + 1, columns + 1)
    longer = _pad_last(flat, 0, columns)
    rows = _slice_last(longer, start, start + count * (columns + 1))
    rows = shaping.reshape(rows, shape=(*flat.shape[:-1], count, columns + 1))
    return shaping.reshape(_slice_last(rows, 0, 1), shape=(*flat.shape[:-1], count))


def replace_diagonal(x: Any, values: Any, first: int, second: int, offset: int = 0) -> Any:
    """Return `x` with the diagonal of two axes replaced by `values` (..., length)."""
    flat, order = _flatten_matrices(x, first, second)
    columns, count = x.shape[second], values.shape[-1]
    start = _start(columns, offset)
    if isinstance(columns, int):
        stop = start + (count - 1) * (columns + 1) + 1
        result = indexing.slice_scatter(flat, values, axis=flat.ndim - 1, start=start, stop=stop, step=columns + 1)
    else:

        def place(values: Any) -> Any:
            rows = _pad_last(shaping.reshape(values, shape=(*values.shape, 1)), 0, columns)
            row = shaping.reshape(rows, shape=(*values.shape[:-1], count * (columns + 1)))
            return _pad_last(row, start, flat.shape[-1] - start - count * (columns + 1))

        on_diagonal = comparison.not_equal(place(creation.full_like(values, 1)), 0)
        result = elementwise.where(on_diagonal, place(values), flat)
    matrices = shaping.reshape(result, shape=tuple(x.shape[axis] for axis in order))
    return shaping.transpose(matrices, permutation=tuple(order.index(axis) for axis in range(x.ndim)))


def _flatten_matrices(x: Any, first: int, second: int) -> tuple[Any, list[int]]:
    """Return the matrices of two axes, each flattened to one row, and the order of axes before flattening."""
    order = [*(axis for axis in range(x.ndim) if axis not in (first, second)), first, second]
    shape = (*(x.shape[axis] for axis in order[:-2]), x.shape[first] * x.shape[second])
    return shaping.reshape(shaping.transpose(x, permutation=tuple(order)), shape=shape), order


def _start(columns: Dim, offset: int) -> Dim:
    """Return the position of the first element of a diagonal in a flattened matrix."""
    return offset if offset >= 0 else columns * -offset


def _slice_last(x: Any, start: Dim, stop: Dim, step: int = 1) -> Any:
    return slicing.slice(x, starts=(start,), stops=(stop,), steps=(step,), axes=(x.ndim - 1,))


def _pad_last(x: Any, before: Dim, after: Dim) -> Any:
    """Pad both ends of the last axis of `x` with zeros; negative sizes crop."""
    none = (0,) * (x.ndim - 1)
    return slicing.pad(x, before=(*none, before), after=(*none, after))
