"""Tables that a port has one below the other in one table, with a number added to the indices of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .features import Arrays
from .units import TABLE, Unit

MOST_READINGS = 8
"""The most ways to take a table apart that are tried."""


@dataclass(frozen=True)
class Rows:
    """A table of the reference that is a part of another one.

    Attributes:
        original: the reference's unit.
        start: the first row.
    """

    original: Unit
    start: int


def readings(
    data: Arrays, size: int, count: int, originals: Sequence[Unit], arrays: Mapping[Unit, Arrays]
) -> Iterator[tuple[Rows, ...]]:
    """Yield the tables that together are one, by the indices that are looked up.

    Args:
        data: indices into the joined table, on each sample. Along one axis, each of them is of another table.
        size: the number of features.
        count: the number of rows.
        originals: units of the reference.
        arrays: the indices of each.
    """
    tables = [unit for unit in originals if unit.kind == TABLE and unit.size == size and unit in arrays]
    for axis in reversed(range(data[0].ndim)):
        if 1 < data[0].shape[axis] <= len(tables):
            fitting = []
            for i in range(data[0].shape[axis]):
                starts = {unit: _start([array.take(i, axis) for array in data], arrays[unit]) for unit in tables}
                fitting.append([Rows(unit, start) for unit, start in starts.items() if start is not None])
            yield from _disjoint(fitting, count)


def _start(indices: Arrays, originals: Arrays) -> int | None:
    """Return the number that was added to indices; None if it isn't one number, or is negative."""
    if indices[0].size != originals[0].size or not indices[0].size:
        return None
    flat = [[array.reshape(-1).astype(np.int64) for array in arrays] for arrays in (indices, originals)]
    apart = [a - b for a, b in zip(*flat, strict=True)]
    start = int(apart[0][0])
    return start if start >= 0 and all(np.all(x == start) for x in apart) else None


def _disjoint(fitting: Sequence[Sequence[Rows]], count: int) -> Iterator[tuple[Rows, ...]]:
    """Yield one of each, so that all rows of a table belong to one of them."""
    partial: list[tuple[Rows, ...]] = [()]
    for choices in fitting:
        longer = [(*rows, choice) for rows in partial for choice in choices]
        partial = [rows for rows in longer if len({part.original for part in rows}) == len(rows)][: MOST_READINGS**2]
    whole = [rows for rows in partial if _is_whole(rows, count)]
    yield from whole[:MOST_READINGS]


def _is_whole(parts: tuple[Rows, ...], count: int) -> bool:
    ends = sorted((part.start, part.start + rows_of(part.original)) for part in parts)
    starts, stops = [start for start, _ in ends], [stop for _, stop in ends]
    return starts == [0, *stops[:-1]] and stops[-1] == count


def rows_of(unit: Unit) -> int:
    """Return the number of rows of a unit's table."""
    return int(str(unit.operand.shape[0]))
