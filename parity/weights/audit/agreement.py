"""How the values of a tensor agree with those that another tensor should give it: equal, rounded, or not the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..arrangements import Array
from ..readers.tensor import StoredTensor
from .precisions import COARSE, is_coarser, relative_error, rounded

SAME_RATIO = 8.0
"""The largest error of the same numbers, in errors of an element of the coarser dtype, by root mean squares."""
COMPUTED = 1e-5
"""The largest relative error of numbers that were computed from others in float32."""


@dataclass(frozen=True)
class Agreement:
    """How values agree.

    Attributes:
        error: the root mean square of the differences, by that of the expected values.
        differing: the number of elements that differ.
        size: the number of all.
        through: a coarser dtype to which all values were rounded that are now held in a finer one; empty without.
        is_rounded: whether all values are the expected ones, converted to the dtype of the tensor.
        allowed: the largest `error` of the same values.
    """

    error: float
    differing: int
    size: int
    through: str
    is_rounded: bool
    allowed: float

    @property
    def is_equal(self) -> bool:
        """Whether all values are equal."""
        return self.differing == 0

    @property
    def holds(self) -> bool:
        """Whether the values are the expected ones, up to rounding."""
        return self.is_equal or self.is_rounded or bool(self.through) or self.error <= self.allowed


NOTHING = Agreement(1.0, 1, 1, "", is_rounded=False, allowed=0.0)
"""What another shape gives."""


def agreement(
    expected: Callable[[int, int], Array], tensor: StoredTensor, dtype: str, allowed: float = 0.0
) -> Agreement:
    """Compare a tensor with what is expected, by chunks; where a first chunk is something else, the rest isn't read.

    Args:
        expected: returns the expected values of rows from `start` to `stop`, of any numeric dtype.
        tensor: the tensor.
        dtype: the dtype that the expected values were held in.
        allowed: the relative error to allow at least.
    """
    coarser = tensor.dtype if is_coarser(tensor.dtype, dtype) else dtype
    allowed = max(allowed, SAME_RATIO * relative_error(coarser))
    passed = [name for name in COARSE if is_coarser(name, tensor.dtype)]
    converts = _is_float(tensor.dtype)
    squares = total = 0.0
    differing = 0
    is_rounded = converts
    for rows, values in _chunks(expected, tensor):
        different = ~((rows == values) | (np.isnan(rows) & np.isnan(values)))
        differing += int(different.sum())
        if different.any():
            is_rounded = is_rounded and np.array_equal(rounded(rows, tensor.dtype), values, equal_nan=True)
            passed = [n for n in passed if np.array_equal(rounded(rows, n), values, equal_nan=True)]
            with np.errstate(invalid="ignore"):
                squares += float(np.square(rows - values)[different].sum())
        total += float(np.square(rows[np.isfinite(rows)]).sum())
        if not is_rounded and not passed and not np.sqrt(squares) <= 4 * allowed * np.sqrt(total):
            break  # the error by the root mean square doesn't recover from that
    error = float(np.sqrt(squares / total)) if total else float(differing > 0)
    through = passed[0] if passed and differing else ""
    return Agreement(error, differing, tensor.size, through, is_rounded, allowed)


def _chunks(expected: Callable[[int, int], Array], tensor: StoredTensor) -> Iterator[tuple[Array, Array]]:
    for start, rows in tensor.chunks():
        yield expected(start, start + len(rows)).astype(np.float64).reshape(rows.shape), rows.astype(np.float64)


def _is_float(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind not in "biuOSU"
    except TypeError:
        return False
