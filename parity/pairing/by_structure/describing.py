"""How a candidate's tensor is made of the reference's, in the terms of a map file, from the number of each element."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ...sides.records import Array
from ...weights.assembly import Assembly, as_matrix, grids_of
from .sources import Source, Sources

Axes = tuple[int, ...]


def describe(numbers: Array, sources: Sources) -> Assembly | None:
    """Return the simplest assembly that has these elements; it goes on in the same way where nothing was chosen.

    Args:
        numbers: the number of the reference's element for each of a tensor's elements; -1 for those that no unit uses
            on these inputs, such as rows of a table.
        sources: the reference's elements.

    Returns:
        The assembly; None if nothing was chosen, or if it doesn't tell what the other elements are.
    """
    used = [source for source, _ in sources.used(numbers[numbers >= 0])]
    if not used:
        return None
    for axes, from_axes in _readings(numbers.ndim, {len(sources.shape(source)) for source in used}):
        assembly = _as_rows(numbers, sources, used, axes, from_axes)
        if assembly is not None:
            return assembly
    return None


def _readings(rank: int, ranks: set[int]) -> Iterator[tuple[Axes, Axes]]:
    """Yield the axes of rows of a tensor, and of those that it is made of, the simplest first."""
    row_axes = list(_row_axes(rank))
    source_axes = [axes for axes in _row_axes(max(ranks)) if max(axes, default=0) < max(1, min(ranks))]
    if ranks == {1}:
        row_axes += [tuple(range(rank))] * (rank > 1)  # a vector that is divided, such as a bias by heads
    elif rank == 1 and len(ranks) == 1:
        source_axes.append(tuple(range(max(ranks))))
    yield from sorted(
        itertools.product(row_axes, source_axes),
        key=lambda pair: (pair != ((0,), (0,)), len(pair[0]) + len(pair[1]), pair),
    )


def _row_axes(rank: int) -> Iterator[Axes]:
    if rank < 2:
        yield (0,)
    for count in range(1, rank):
        yield from (
            itertools.permutations(range(rank), count) if rank <= 3 else itertools.combinations(range(rank), count)
        )


def _as_rows(numbers: Array, sources: Sources, used: list[Source], axes: Axes, from_axes: Axes) -> Assembly | None:
    """Return the assembly with rows along these axes; None if rows aren't in it as they are."""
    matrix = as_matrix(numbers, axes)
    parts = [
        as_matrix(
            np.arange(first, first + int(np.prod(shape, dtype=int)), dtype=numbers.dtype).reshape(shape), from_axes
        )
        for source in used
        for first, shape in ((sources.first[source], sources.shape(source)),)
    ]
    if len({part.shape[1] for part in parts}) > 1 or matrix.shape[1] > parts[0].shape[1]:
        return None
    rows = _rows(matrix, sources, used, from_axes)
    if rows is None:
        return None
    joined = np.concatenate(parts) if len(parts) > 1 else parts[0]
    columns = _columns(matrix, joined, rows)
    if columns is None:
        return None
    all_rows = np.array_equal(rows, np.arange(len(joined)))
    all_columns = np.array_equal(columns, np.arange(joined.shape[1]))
    arranged = joined if all_rows else joined[rows]
    arranged = arranged if all_columns else arranged[:, columns]
    if not np.all((arranged == matrix) | (matrix < 0)):
        return None
    plain = Assembly(
        tuple(used),
        None,
        from_axes,
        None if all_rows else grids_of(rows),
        None if all_columns else grids_of(columns),
        axes,
    )
    natural: tuple[int, ...] = (
        (len(rows),) if all(len(sources.shape(s)) == 1 for s in used) else (len(rows), len(columns))
    )
    if len(used) == 1 and all_rows and all_columns and from_axes == (0,):
        natural = sources.shape(used[0])
    return (
        plain
        if axes == (0,) and natural == numbers.shape
        else Assembly(plain.sources, numbers.shape, plain.from_axes, plain.rows, plain.columns, plain.axes)
    )


def _rows(matrix: Array, sources: Sources, used: list[Source], from_axes: Axes) -> Array | None:
    """Return the number of the joined parts' row for each row of a matrix; rows without numbers go on as others do."""
    column = np.argmax(matrix >= 0, axis=1)
    first = matrix[np.arange(len(matrix)), column]
    rows = np.full(len(matrix), -1, np.int64)
    start = 0
    for source in used:
        shape, low = sources.shape(source), sources.first[source]
        inside = (first >= low) & (first < low + int(np.prod(shape, dtype=int)))
        sizes = tuple(shape[axis] for axis in from_axes) if shape else ()
        if shape:
            indices = np.unravel_index(first[inside] - low, shape)
            rows[inside] = start + np.ravel_multi_index([indices[axis] for axis in from_axes], sizes)
        else:
            rows[inside] = start
        start += int(np.prod(sizes, dtype=int))
    return _continued(rows, start)


def _columns(matrix: Array, joined: Array, rows: Array) -> Array | None:
    """Return the number of the joined parts' column for each column of a matrix."""
    row = np.argmax(matrix >= 0, axis=0)
    first = matrix[row, np.arange(matrix.shape[1])]
    order = np.argsort(joined[rows[0]])
    columns = np.full(matrix.shape[1], -1, np.int64)
    for source_row in np.unique(rows[row]):
        inside = (rows[row] == source_row) & (first >= 0)
        values = joined[source_row]
        order = np.argsort(values)
        places = np.minimum(np.searchsorted(values[order], first[inside]), len(order) - 1)
        columns[inside] = np.where(values[order][places] == first[inside], order[places], -1)
        if np.any(columns[inside] < 0):
            return None
    return _continued(columns, joined.shape[1])


def _continued(numbers: Array, count: int) -> Array | None:
    """Return numbers with those that lack, if the others are one more than the one before; None if that isn't so."""
    known = np.flatnonzero(numbers >= 0)
    if len(known) == len(numbers):
        return numbers
    if not len(known):
        return None
    apart = np.unique(numbers[known] - known)
    if len(apart) > 1 or apart[0] < 0 or len(numbers) + apart[0] > count:
        return None
    return np.asarray(np.arange(len(numbers)) + apart[0])
