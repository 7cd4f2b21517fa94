"""The map of a tensor's errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ..results.error_map import LIMITS, ErrorMap, Plane, Rows
from .deviations import Array, Index

MAX_ELEMENTS = 2**24
"""A larger tensor has no map: its errors would take more memory than all the rest of a comparison."""

MAX_AXES = 4
TILES = (16, 32)
WINDOW = (5, 7)


def error_map(candidate: Array, truth: Array, reference: Array, bar: float, index: Index | None) -> ErrorMap | None:
    """Return where a tensor is wrong; None if it is too large, or has no elements.

    Args:
        candidate: the tensor of the side under test.
        truth: what it is judged by, of the same shape.
        reference: the tensor of the reference, whose values are shown.
        bar: the largest error that passes; where it is 0, any error is infinitely many bars.
        index: index of the worst element, at the middle of the window of values.
    """
    if not 0 < truth.size <= MAX_ELEMENTS or index is None:
        return None
    errors = _in_bars(candidate, truth, bar)
    exceeded = np.searchsorted(np.asarray(LIMITS), errors.ravel(), side="left")
    counts = np.bincount(exceeded, minlength=len(LIMITS) + 1)
    matrix = index if len(index) > 1 else (0, *index) if index else (0, 0)
    corner, windows = _window(matrix, [_last_two_axes(x, matrix) for x in (reference, candidate)])
    return ErrorMap(tuple(map(int, counts)), _planes(errors), corner, *windows)


def _in_bars(candidate: Array, truth: Array, bar: float) -> Array:
    a, b = candidate.astype(np.float64), truth.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        difference = np.asarray(np.abs(a - b))
        difference[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
        difference[np.isnan(difference)] = np.inf
        if bar > 0:
            return difference / bar
        return np.where(difference > 0, np.inf, 0.0)


def _planes(errors: Array) -> tuple[Plane, ...]:
    if errors.ndim < 2:
        return (Plane((0, 0), (1, errors.size), _tiles(errors.reshape(1, -1))),)
    longest = sorted(range(errors.ndim), key=lambda axis: (-errors.shape[axis], -axis))[:MAX_AXES]
    planes = []
    for pair in combinations(sorted(longest), 2):
        others = tuple(axis for axis in range(errors.ndim) if axis not in pair)
        plane = errors.max(axis=others)
        planes.append((np.mean(plane > 1), pair, Plane(pair, (plane.shape[0], plane.shape[1]), _tiles(plane))))
    # first the one that says most about where the error is: in which the least of the area is wrong
    return tuple(entry for _, _, entry in sorted(planes, key=lambda entry: (entry[0], -entry[1][0], -entry[1][1])))


def _tiles(plane: Array) -> Rows:
    for axis, most in enumerate(TILES):
        count = min(most, plane.shape[axis])
        starts = np.arange(count) * plane.shape[axis] // count
        plane = np.maximum.reduceat(plane, starts, axis=axis)
    return _as_rows(plane)


def _last_two_axes(array: Array, index: Index) -> Array:
    matrix = array.reshape(1, -1) if array.ndim < 2 else array[index[:-2]]
    return np.asarray(matrix, np.float64)


def _window(index: Index, arrays: list[Array]) -> tuple[tuple[int, int], list[Rows]]:
    shape = arrays[0].shape
    corner = [
        max(0, min(center - length // 2, size - length))
        for center, length, size in zip(index[-2:], WINDOW, shape, strict=True)
    ]
    (top, left), (height, width) = corner, WINDOW
    return (top, left), [_as_rows(array[top : top + height, left : left + width]) for array in arrays]


def _as_rows(array: Array) -> Rows:
    return tuple(tuple(map(float, row)) for row in array)
