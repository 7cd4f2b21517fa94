"""Deviations between arrays, computed block by block so that large arrays need little extra memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...runtime.ir.types import is_floating

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]

BLOCK = 2**16  # elements, which stay in the processor's cache


def size(array: Array | None, below: float = np.inf) -> float:
    """The largest absolute value of the finite elements that are less than `below` in it; 0 if there are none."""
    if array is None or array.size == 0:
        return 0.0
    largest = max(abs(float(array.max())), abs(float(array.min())))
    if np.isfinite(largest) and largest < below:
        return largest
    largest_finite = 0.0
    for _, (block,) in _blocks(array):
        magnitudes = np.abs(block)
        counts = np.isfinite(magnitudes) & (magnitudes < below)
        largest_finite = max(largest_finite, float(np.max(magnitudes, initial=0.0, where=counts)))
    return largest_finite


def error(
    candidate: Array,
    truth: Array,
    reference: Array | None = None,
    below: float = np.inf,
    within: Array | None = None,
) -> tuple[float, Index | None]:
    """The largest absolute difference and its index; infinite where only one side is NaN or has that infinity.

    Args:
        candidate: one side.
        truth: the other side, of the same shape.
        reference: where this overflows and the truth doesn't, the candidate may overflow too.
        below: compare only elements where the truth's absolute value is less than this.
        within: elements that differ by at most this count as equal; of the same shape.
    """
    if truth.size == 0:
        return 0.0, None
    if candidate is truth:  # a value that was fed, at the next boundary
        return 0.0, _index(0, truth.shape)
    if reference is None or reference.shape != truth.shape or not is_floating(reference.dtype):
        reference = truth  # overflows only where the truth does
    worst, position = -1.0, 0
    overflows = reference.reshape(-1)
    for start, (a, b, *rounding) in _blocks(candidate, truth, *([] if within is None else [within])):
        with np.errstate(invalid="ignore"):
            difference = np.subtract(a, b)
        np.abs(difference, out=difference)
        if not np.isfinite(difference[np.argmax(difference)]):  # NaN counts as the largest
            c = overflows[start : start + BLOCK]
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            excused = ~np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c.astype(np.float64))
            difference[~np.isfinite(difference)] = np.inf
            difference[same | excused] = 0.0
        if below < np.inf:
            difference[~(np.abs(b) < below)] = 0.0
        if rounding:
            difference[difference <= rounding[0]] = 0.0
        at = int(np.argmax(difference))
        if difference[at] > worst:
            worst, position = float(difference[at]), start + at
    return worst, _index(position, truth.shape)


def reference_error(reference: Array, truth: Array, below: float = np.inf) -> float:
    """The largest error of the reference in the working dtype where it doesn't overflow; see `error`."""
    return error(reference, truth, reference, below)[0]


def excess(candidate: Array, truth: Array, atol: float, rtol: float) -> tuple[float, Index | None]:
    """The largest excess of `|candidate - truth|` over `atol + rtol * |truth|`, and its index; -inf for equal elements.

    The excess is infinite where either side is NaN or infinite, unless both are the same.
    """
    worst, position = -np.inf, 0
    for start, (a, b) in _blocks(candidate, truth):
        with np.errstate(invalid="ignore"):
            over = np.abs(a - b) - (atol + rtol * np.abs(b))
        over[np.isnan(over)] = np.inf
        over[(a == b) | (np.isnan(a) & np.isnan(b))] = -np.inf
        at = int(np.argmax(over))
        if over[at] > worst:
            worst, position = float(over[at]), start + at
    return worst, _index(position, truth.shape) if truth.size else None


def differing(candidate: Array, expected: Array) -> tuple[int, Index | None]:
    """The number of elements that aren't equal, and the index of the first."""
    count, first = 0, None
    a, b = candidate.reshape(-1), expected.reshape(-1)
    for start in range(0, a.size, BLOCK):
        other = np.flatnonzero(a[start : start + BLOCK] != b[start : start + BLOCK])
        if other.size and first is None:
            first = start + int(other[0])
        count += other.size
    return count, None if first is None else _index(first, expected.shape)


def exponents(array: Array) -> list[int]:
    """The binary exponents of the finite nonzero elements, in ascending order: `2**(e - 1) <= abs(x) < 2**e`."""
    result: set[int] = set()
    for _, (block,) in _blocks(array):
        result.update(np.unique(np.frexp(block[np.isfinite(block) & (block != 0)])[1]).tolist())
    return sorted(result)


def _blocks(*arrays: Array) -> Iterator[tuple[int, list[Array]]]:
    """Yield the start and the contents of each block of arrays of one shape, flat and in float64."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, BLOCK):
        yield start, [array[start : start + BLOCK].astype(np.float64, copy=False) for array in flat]


def _index(position: int, shape: tuple[int, ...]) -> Index:
    return tuple(int(i) for i in np.unravel_index(position, shape))
