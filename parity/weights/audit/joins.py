"""Tensors that are put together from slices of others, or are one of their slices: joined, divided, stacked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrangements import Array
from ..assembly import Assembly, as_matrix, grids_of
from ..readers.tensor import slice_of
from .moments import Lines, Sketch, nearest, sketch, sums_of_powers
from .reordering import reorderings
from .slices import FEWEST, Slice, SliceIndex

MOST_UNKNOWN = 0.5
"""The largest share of a tensor's slices that may come from nowhere."""


@dataclass(frozen=True)
class Join:
    """What a tensor is put together from.

    Attributes:
        assembly: how it is; a row that comes from nowhere is in it as any other.
        axes: the axes of the tensor along which its rows run.
        unknown: numbers of the rows that come from nowhere and aren't zero.
        padding: numbers of the rows that are zero and come from nowhere.
    """

    assembly: Assembly
    unknown: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()


def joins(target: Sketch, index: SliceIndex, most: float) -> Iterator[Join]:
    """Yield what a tensor may be put together from; values must confirm it.

    Args:
        target: the tensor.
        index: the slices of the tensors of which it may be.
        most: the largest difference of the features of slices that are the same.
    """
    whole = index.find(target.whole, most)[0] if target.tensor.size >= FEWEST else None
    if whole is not None and whole.axis is not None:
        yield from _parts(target, index, whole, most)
    for axis, lines in enumerate(target.axes):
        if len(lines) < 2 or lines.length < FEWEST:
            continue
        slices = index.find(lines, most)
        is_zero = lines.is_zero
        known = [s for s, zero in zip(slices, is_zero, strict=True) if s is not None and not zero]
        if not known or len(known) < (1 - MOST_UNKNOWN) * int((~is_zero).sum()):
            continue
        whole_ones = [s for s in known if s.axis is None]
        if len(whole_ones) == len(known):
            yield from _stacks(target, axis, slices, index, most)
        elif not whole_ones:
            yield from _of_rows(target, axis, slices, index, most)


def _parts(target: Sketch, index: SliceIndex, part: Slice, most: float) -> Iterator[Join]:
    """Yield the ways in which a tensor is a single slice of another along an axis."""
    source = index.sketches[part.name].tensor
    assert part.axis is not None, "a whole tensor is no part"
    for inner in reorderings(sketch(slice_of(source, part.axis, part.number)), target, most):
        kept = [axis for axis in range(len(source.shape)) if axis != part.axis]
        within = tuple(kept[axis] for axis in inner.from_axes)
        if inner.columns is None and inner.rows is None:
            count = math.prod(source.shape[axis] for axis in within)
            rows = grids_of(np.arange(count) + part.number * count)
            axes = inner.axes if inner.shape is not None else (0,)
            yield Join(Assembly((source.name,), target.tensor.shape, (part.axis, *within), rows, None, axes))


def _stacks(
    target: Sketch, axis: int, slices: Sequence[Slice | None], index: SliceIndex, most: float
) -> Iterator[Join]:
    """Yield the ways in which the slices of a tensor along an axis are whole tensors."""
    names = [None if s is None else s.name for s in slices]
    if any(name is None for name in names):
        return
    shape = target.tensor.shape
    rest = [other for other in range(len(shape)) if other != axis]
    first = sketch(slice_of(target.tensor, axis, 0))
    for inner in reorderings(index.sketches[slices[0].name], first, most):  # type: ignore[union-attr]
        if inner.rows is None and inner.columns is None:
            axes = (axis, *(rest[other] for other in inner.axes)) if inner.shape is not None else (axis, rest[0])
            sources = tuple(name for name in names if name is not None)
            yield Join(Assembly(sources, shape, inner.from_axes, None, None, axes[: len(shape)]))


def _of_rows(
    target: Sketch, axis: int, slices: Sequence[Slice | None], index: SliceIndex, most: float
) -> Iterator[Join]:
    """Yield the ways in which the slices of a tensor along an axis are slices of others along one axis of theirs."""
    by_axis: dict[int, int] = {}
    for of_row in slices:
        if of_row is not None and of_row.axis is not None:
            by_axis[of_row.axis] = by_axis.get(of_row.axis, 0) + 1
    from_axis = max(by_axis, key=by_axis.__getitem__)
    is_zero = target.axes[axis].is_zero
    rows = [
        s if s is not None and s.axis == from_axis and not zero else None
        for s, zero in zip(slices, is_zero, strict=True)
    ]
    rows = _in_runs(rows, target, axis, index, most)
    names = list(dict.fromkeys(s.name for s in rows if s is not None))
    counts = [index.sketches[name].tensor.shape[from_axis] for name in names]
    starts = dict(zip(names, np.cumsum([0, *counts])[:-1], strict=True))
    known = np.array([s is not None for s in rows])
    numbers = _filled([None if s is None else int(starts[s.name]) + s.number for s in rows], sum(counts))
    unknown = tuple(int(n) for n in np.flatnonzero(~known & ~is_zero))
    padding = tuple(int(n) for n in np.flatnonzero(~known & is_zero))
    arrays = {name: index.sketches[name].tensor.read() for name in names}
    matrix = np.concatenate([as_matrix(arrays[name], (from_axis,)) for name in names])
    gathered = matrix[numbers[known]].astype(np.float64)
    wanted = as_matrix(target.tensor.read(), (axis,))[known].astype(np.float64)
    columns = _columns(gathered, wanted, most)
    if columns is None:
        return
    assembly = rows_of(tuple(names), numbers, padding, len(matrix))
    order = None if np.array_equal(columns, np.arange(len(columns))) else grids_of(columns)
    shape = target.tensor.shape
    yield Join(replace(assembly, shape=shape, from_axes=(from_axis,), columns=order, axes=(axis,)), unknown, padding)


def rows_of(names: tuple[str, ...], numbers: Array, padding: Sequence[int], total: int) -> Assembly:
    """Return the assembly of rows of tensors, with zeros after them if that is where the padding is.

    Args:
        names: the tensors.
        numbers: the numbers of the rows, one for each row of the result.
        padding: the rows of the result that are zero.
        total: the number of all rows of the tensors.
    """
    count = len(padding) if list(padding) == list(range(len(numbers) - len(padding), len(numbers))) else 0
    numbers = numbers[: len(numbers) - count]
    is_all = len(numbers) == total and np.array_equal(numbers, np.arange(total))
    return Assembly(names, rows=None if is_all else grids_of(numbers), padding=count)


def _filled(numbers: Sequence[int | None], total: int) -> Array:
    """Return the numbers of rows with those that go on for rows that come from nowhere."""
    result: list[int] = []
    for position, number in enumerate(numbers):
        following = result[-1] + 1 if result else -position
        if number is None and not result:  # as many before the first that is known
            first = next(n for n, each in enumerate(numbers) if each is not None)
            following = (numbers[first] or 0) - first
        result.append(number if number is not None else following if 0 <= following < total else 0)
    return np.array(result)


def _in_runs(
    rows: Sequence[Slice | None], target: Sketch, axis: int, index: SliceIndex, most: float
) -> list[Slice | None]:
    """Return the slices with those that go on where the one before ends, if they have the same elements."""
    features = target.axes[axis].features
    result: list[Slice | None] = []
    for number, of_row in enumerate(rows):
        previous = result[-1] if result else None
        if previous is not None and of_row is not None and previous.axis is not None:
            lines = index.sketches[previous.name].axes[previous.axis]
            following = previous.number + 1
            if following < len(lines) and lines.length == target.axes[axis].length:
                near = np.abs(lines.features[following] - features[number]).max() <= most
                of_row = Slice(previous.name, previous.axis, following) if near else of_row
        result.append(of_row)
    return result


def _columns(gathered: Array, wanted: Array, most: float) -> Array | None:
    """Return the order of the columns with which rows have the elements of others; None if there is none."""
    count = gathered.shape[1]
    plain = np.arange(count)
    features, others = (Lines(sums_of_powers(each)[1], len(each)).features for each in (gathered, wanted))
    away = np.flatnonzero(np.abs(features - others).max(axis=1) > most)
    if not len(away):
        return plain
    closest = nearest(others[away], features[away], most)
    if (closest < 0).any() or len(np.unique(closest)) < len(closest):
        return None
    plain[away] = away[closest]
    return plain
