"""Where a recorded tensor has the numbers of another: as a whole or a part, with its axes in another order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....runtime.ir.types import is_floating
from ...correspondence.distances import Array
from ...correspondence.layouts import plain_layouts
from ...verdicts.judge import epsilon
from .views import WHOLE, Index, View

CLOSE, CLOSE_UNITS = 1e-3, 4.0
"""The largest difference of values that count as the same, relative to the largest element: in half precision, in units
in its last place."""
ROUNDED = 100.0
"""Units in the last place of the largest element by which rounding may change others, in a network."""
MAX_RANK = 4
QUICK = 64  # elements that are compared first


def is_telling(array: Array) -> bool:
    """Whether values can be recognized: there are several, and not all are equal."""
    kind_tells = is_floating(array.dtype) or array.dtype.kind in "iu"
    return kind_tells and array.size > 1 and bool((array != array.flat[0]).any())


def closeness(*arrays: Array) -> float:
    """Return how far values may be apart, relative to the largest element, that count as the same."""
    return max(CLOSE, CLOSE_UNITS * _unit(*arrays))


def _unit(*arrays: Array) -> float:
    """Return the spacing of numbers at 1 in the least precise dtype."""
    return max((epsilon(array.dtype.name) for array in arrays if is_floating(array.dtype)), default=0.0)


def view_of(own: Array, other: Array, relative: float) -> View | None:
    """Return the part of another tensor that has the values of a tensor, as far as a map can say it; else None.

    Args:
        own: the reference's tensor, in float64.
        other: the recording's, in float64.
        relative: how far values may be apart; see `closeness`.
    """
    limit = relative * float(np.abs(own).max())
    if other.size == own.size:
        return WHOLE if _is_close(own, other, limit) else _in_another_layout(own, other, limit)
    if other.size > own.size:
        for index in _parts(own.shape, other.shape):
            part = other[index]  # type: ignore[index]
            if _is_close(own, part, limit):
                return View(index)
            if own.ndim == 2 and _is_close(own, part.T, limit):
                return View(index, (1, 0))
    return None


def _in_another_layout(own: Array, other: Array, limit: float) -> View | None:
    if max(own.ndim, other.ndim) > MAX_RANK:
        return None
    for layout in plain_layouts(other.shape, own.shape):
        if _is_close(own, layout.read(other), limit):
            return View((), layout.permutation if layout.exchanges_axes else ())
    return None


def is_rounded(own: Array, other: Array) -> bool:
    """Whether two tensors, in any shape, differ by no more than what rounding in the less precise dtype adds up to."""
    return is_close(own, other, min(ROUNDED * _unit(own, other), closeness(own, other)))


def is_close(own: Array, other: Array, relative: float | None = None) -> bool:
    """Whether two tensors have the same numbers, in any shape."""
    relative = closeness(own, other) if relative is None else relative
    wide, other_wide = own.astype(np.float64).reshape(-1), other.astype(np.float64).reshape(-1)
    return _is_close(wide, other_wide, relative * float(np.abs(wide).max(initial=0.0)))


def are_of_one_form(own: Array, other: Array) -> bool:
    """Whether two tensors have the same shape, and are both of numbers of one kind."""
    forms = [(array.shape, is_floating(array.dtype), array.dtype.kind == "c") for array in (own, other)]
    return forms[0] == forms[1]


def _parts(shape: tuple[int, ...], whole: tuple[int, ...]) -> Iterator[Index]:
    """Yield the indices of layers along the first axis, or of parts of equal size along one axis."""
    if len(whole) == len(shape) + 1:
        yield from ((place,) for place in range(whole[0]))
    elif len(whole) == len(shape):
        for axis, total in enumerate(whole):
            others = sorted(whole[:axis] + whole[axis + 1 :])
            before = (...,) if axis == len(whole) - 1 else (slice(None),) * axis
            for size in dict.fromkeys(shape):
                rest = list(shape)
                rest.remove(size)
                if 0 < size < total and total % size == 0 and sorted(rest) == others:
                    yield from ((*before, slice(start, start + size)) for start in range(0, total, size))


def _is_close(own: Array, other: Array, limit: float) -> bool:
    """Whether the shapes are the same, and no element differs by more than a limit; the first few are tried alone."""
    if own.shape != other.shape:
        return False
    if not np.isfinite(limit):
        return np.array_equal(own, other, equal_nan=True)
    few = np.abs(own.flat[:QUICK] - other.flat[:QUICK])
    return float(few.max()) <= limit and float(np.abs(own - other).max()) <= limit
