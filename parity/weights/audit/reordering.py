"""How a tensor has the elements of another: axes exchanged, divided or joined, slices in another order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..arrangements import Array
from ..assembly import Assembly, grids_of
from .moments import Lines, Sketch, nearest

MOST_AXES = 5


def reorderings(source: Sketch, target: Sketch, most: float) -> Iterator[Assembly]:
    """Yield how the target may have the elements of the source, the simplest first; values must confirm it.

    Args:
        source: a tensor.
        target: a tensor with as many elements.
        most: the largest difference of the features of slices that are the same.
    """
    name, shapes = source.tensor.name, (source.tensor.shape, target.tensor.shape)
    if shapes[0] == shapes[1]:
        yield Assembly((name,))
    if source.is_constant or max(map(len, shapes)) > MOST_AXES:
        return
    axes = [[axis for axis, size in enumerate(shape) if size > 1] for shape in shapes]
    if len(axes[0]) == len(axes[1]):
        for permutation in itertools.permutations(axes[0]):
            orders = [
                _order(source.axes[axis], target.axes[other], most)
                for axis, other in zip(permutation, axes[1], strict=True)
                if shapes[0][axis] == shapes[1][other]
            ]
            if len(orders) == len(permutation) and all(order is not None for order in orders):
                is_plain = all(_is_plain(order) for order in orders if order is not None)
                if permutation != tuple(axes[0]) or not is_plain or shapes[0] != shapes[1]:
                    yield _assembly(name, shapes, permutation, axes[1], [o for o in orders if o is not None])
    else:
        for permutation in itertools.permutations(axes[0]):
            if _divides([shapes[0][axis] for axis in permutation], [shapes[1][axis] for axis in axes[1]]):
                yield _assembly(name, shapes, permutation, (), [])


def _order(lines: Lines, others: Lines, most: float) -> Array | None:
    """Return for each slice of the others the number of the same slice; None if they aren't the same slices."""
    if len(lines) != len(others):
        return None
    features, other_features = lines.features, others.features
    result = np.arange(len(lines))
    away = np.flatnonzero(np.abs(features - other_features).max(axis=1) > most)
    if len(away):
        closest = nearest(other_features[away], features[away], most)
        if (closest < 0).any() or len(np.unique(closest)) < len(closest):
            return None
        result[away] = away[closest]
    return result


def _is_plain(order: Array) -> bool:
    return np.array_equal(order, np.arange(len(order)))


def _divides(sizes: Sequence[int], others: Sequence[int]) -> bool:
    """Whether sizes in order come of dividing or joining others in order."""
    ends, other_ends = ({*itertools.accumulate(each, lambda a, b: a * b)} for each in (sizes, others))
    return math.prod(sizes) == math.prod(others) and (ends <= other_ends or other_ends <= ends)


def _assembly(
    name: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    permutation: Sequence[int],
    target_axes: Sequence[int],
    orders: Sequence[Array],
) -> Assembly:
    """Return how a tensor is read with its axes in another order, and then with slices along each in another order."""
    source, target = shapes
    leading = tuple(permutation[:-1]) or tuple(permutation)
    rows = columns = None
    if orders and not all(map(_is_plain, orders)):
        first, last = (list(orders[:-1]), orders[-1]) if len(orders) > 1 else (list(orders), None)
        sizes = [len(order) for order in first]
        numbers = np.ravel_multi_index(np.ix_(*first), sizes).reshape(-1) if first else np.arange(1)
        rows = None if _is_plain(numbers) else grids_of(numbers)
        columns = None if last is None or _is_plain(last) else grids_of(last)
    if list(permutation) == sorted(permutation) and rows is columns is None:
        return Assembly((name,), target)
    if len(source) == len(target) <= 2:
        return Assembly((name,), None, leading, rows, columns)
    axes = tuple(target_axes[: len(leading)]) if target_axes else (0,)
    return Assembly((name,), target, leading, rows, columns, axes)
