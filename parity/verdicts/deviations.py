"""How far arrays are apart. They are read block by block, so that little memory is taken beside them, however large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...runtime.ir.types import is_floating

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]

BLOCK = 2**20  # elements


def size(array: Array | None, below: float = np.inf) -> float:
    """Largest absolute finite element, of those whose absolute value is less than `below`; 0 for none."""
    if array is None or array.size == 0:
        return 0.0
    largest = max(abs(float(array.max())), abs(float(array.min())))
    if np.isfinite(largest) and largest < below:
        return largest
    found = 0.0
    for _, (block,) in _blocks(array):
        magnitudes = np.abs(block)
        counts = np.isfinite(magnitudes) & (magnitudes < below)
        found = max(found, float(np.max(magnitudes, initial=0.0, where=counts)))
    return found


def error(
    candidate: Array, truth: Array, reference: Array | None = None, below: float = np.inf
) -> tuple[float, Index | None]:
    """Largest absolute difference and its index; infinite where one side is NaN or infinite and the other isn't so.

    Args:
        candidate: one side.
        truth: the other side, of its shape.
        reference: where it overflows though the truth doesn't, the candidate may overflow as well.
        below: only where the truth's absolute value is less than that.
    """
    if truth.size == 0:
        return 0.0, None
    if reference is None or reference.shape != truth.shape or not is_floating(reference.dtype):
        reference = truth  # which overflows nowhere that the truth doesn't
    worst, place = -1.0, 0
    for start, (a, b, c) in _blocks(candidate, truth, reference):
        with np.errstate(invalid="ignore"):
            difference = np.abs(a - b)
        if not np.isfinite(difference).all():
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            excused = ~np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c)
            difference[~np.isfinite(difference)] = np.inf
            difference[same | excused] = 0.0
        if below < np.inf:
            difference[~(np.abs(b) < below)] = 0.0
        at = int(np.argmax(difference))
        if difference[at] > worst:
            worst, place = float(difference[at]), start + at
    return worst, _index(place, truth.shape)


def reference_error(reference: Array, truth: Array, below: float = np.inf) -> float:
    """Largest error that the reference makes in the working dtype, where it doesn't overflow; see `error`."""
    return error(reference, truth, reference, below)[0]


def excess(candidate: Array, truth: Array, atol: float, rtol: float) -> tuple[float, Index | None]:
    """By how much `|candidate - truth|` exceeds `atol + rtol * |truth|` at most, and where; -inf where both are same.

    NaN and infinities are exceeded by infinity, unless both sides have the same.
    """
    worst, place = -np.inf, 0
    for start, (a, b) in _blocks(candidate, truth):
        with np.errstate(invalid="ignore"):
            over = np.abs(a - b) - (atol + rtol * np.abs(b))
        over[np.isnan(over)] = np.inf
        over[(a == b) | (np.isnan(a) & np.isnan(b))] = -np.inf
        at = int(np.argmax(over))
        if over[at] > worst:
            worst, place = float(over[at]), start + at
    return worst, _index(place, truth.shape) if truth.size else None


def differing(candidate: Array, expected: Array) -> tuple[int, Index | None]:
    """How many elements differ at all, and the first one that does."""
    count, first = 0, None
    a, b = candidate.reshape(-1), expected.reshape(-1)
    for start in range(0, a.size, BLOCK):
        other = np.flatnonzero(a[start : start + BLOCK] != b[start : start + BLOCK])
        if other.size and first is None:
            first = start + int(other[0])
        count += other.size
    return count, None if first is None else _index(first, expected.shape)


def exponents(array: Array) -> list[int]:
    """The binary exponents that finite elements other than 0 have, in order: `2**(e - 1) <= abs(x) < 2**e`."""
    found: set[int] = set()
    for _, (block,) in _blocks(array):
        found.update(np.unique(np.frexp(block[np.isfinite(block) & (block != 0)])[1]).tolist())
    return sorted(found)


def _blocks(*arrays: Array) -> Iterator[tuple[int, list[Array]]]:
    """Blocks of arrays of one shape, flat and in float64, with where they start."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, BLOCK):
        yield start, [each[start : start + BLOCK].astype(np.float64, copy=False) for each in flat]


def _index(place: int, shape: tuple[int, ...]) -> Index:
    return tuple(int(i) for i in np.unravel_index(place, shape))
