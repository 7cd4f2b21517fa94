"""Diagonals of two axes, read and written as slices with a step: compositions, no ops of their own."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..ir.dims import Dim
from . import indexing, shaping


def diagonal_of(x: Any, first: int, second: int, offset: int = 0, length: Dim | None = None) -> Any:
    """The diagonal of two axes, as the last axis; `length` defaults to the size of the first of them.

    Raises:
        ShapeError: the size of the second axis is symbolic.
    """
    flat, _ = _rows_of_matrices(x, first, second)
    start, stop, step = _bounds(x, first, second, offset, x.shape[first] if length is None else length)
    return shaping.slice(flat, starts=(start,), stops=(stop,), steps=(step,), axes=(flat.ndim - 1,))


def with_diagonal(x: Any, values: Any, first: int, second: int, offset: int = 0) -> Any:
    """`x` with `values` (..., length) in place of the diagonal of two axes. Errors are those of `diagonal_of`."""
    flat, order = _rows_of_matrices(x, first, second)
    start, stop, step = _bounds(x, first, second, offset, values.shape[-1])
    written = indexing.slice_scatter(flat, values, axis=flat.ndim - 1, start=start, stop=stop, step=step)
    matrices = shaping.reshape(written, shape=tuple(x.shape[axis] for axis in order))
    return shaping.transpose(matrices, permutation=tuple(order.index(axis) for axis in range(x.ndim)))


def _rows_of_matrices(x: Any, first: int, second: int) -> tuple[Any, list[int]]:
    """The matrices of two axes, each as one row of all its elements; and the order of the axes of `x` before that."""
    order = [*(axis for axis in range(x.ndim) if axis not in (first, second)), first, second]
    shape = (*(x.shape[axis] for axis in order[:-2]), x.shape[first] * x.shape[second])
    return shaping.reshape(shaping.transpose(x, permutation=tuple(order)), shape=shape), order


def _bounds(x: Any, first: int, second: int, offset: int, length: Dim) -> tuple[Dim, Dim, int]:
    """Where the elements of a diagonal stand in a row of all the elements of a matrix."""
    columns = x.shape[second]
    if not isinstance(columns, int):
        raise ShapeError("the diagonal of an axis of symbolic size can't be taken")
    start = offset if offset >= 0 else columns * -offset
    return start, start + (length - 1) * (columns + 1) + 1, columns + 1
