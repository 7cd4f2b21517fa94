"""How the values of a tensor agree with those that another tensor should give it: equal, rounded, or not the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..arrangements import Array
from .moments import Sketch
from .precisions import BLOCK_FORMAT, COARSE, is_coarser, relative_error, rounded

SAME_RATIO = 2.0
"""The largest error of the same numbers, in errors of an element of the coarser dtype, by root mean squares."""
COMPUTED_RATIO = 4.0
"""How many times as large it may be if the numbers were computed from others."""
WORST_RATIO = 4.0
"""The largest of a single row, in errors that all together may have."""
BLOCKS = 0.2
"""The largest relative error of numbers in a block format, by root mean squares: formats of 2 bits have nearly that."""


@dataclass(frozen=True)
class Agreement:
    """How values agree.

    Attributes:
        error: the root mean square of the differences, by that of the values.
        worst: the same of the row along the first axis in which it is the largest, by the size of the row or of a mean
            row, whichever is larger.
        differing: the number of elements that differ.
        size: the number of all.
        through: a coarser dtype to which all values were rounded that are now held in a finer one; empty without.
        is_rounded: whether all values are the expected ones, converted to the dtype of the tensor.
        allowed: the largest `error` of the same values.
    """

    error: float
    worst: float
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
        is_near = self.error <= self.allowed and self.worst <= WORST_RATIO * self.allowed
        return self.is_equal or self.is_rounded or bool(self.through) or is_near


NOTHING = Agreement(1.0, 1.0, 1, 1, "", is_rounded=False, allowed=0.0)
"""What another shape gives."""


def agreement(
    expected: Callable[[int, int], Array], target: Sketch, dtype: str, *, is_computed: bool = False
) -> Agreement:
    """Compare a tensor with what is expected, by chunks; where it is something else, the rest isn't read.

    Args:
        expected: returns the expected values of rows from `start` to `stop`, of any numeric dtype.
        target: the tensor.
        dtype: the dtype that the expected values were held in.
        is_computed: whether they were computed from others, in one of the dtypes.
    """
    tensor, total = target.tensor, float(target.whole.sums[0, 1])
    coarser = tensor.dtype if is_coarser(tensor.dtype, dtype) else dtype
    allowed = BLOCKS if relative_error(coarser) >= BLOCK_FORMAT else SAME_RATIO * relative_error(coarser)
    allowed *= COMPUTED_RATIO if is_computed else 1.0
    passed = [name for name in COARSE if is_coarser(name, tensor.dtype)]
    is_rounded = _is_float(tensor.dtype)
    squares = worst = 0.0
    differing = 0
    for start, chunk in tensor.chunks():
        values, rows = chunk, expected(start, start + len(chunk)).reshape(chunk.shape)
        if rows.dtype == values.dtype and np.array_equal(rows, values):
            continue
        values, rows = values.astype(np.float64), rows.astype(np.float64)
        different = ~((rows == values) | (np.isnan(rows) & np.isnan(values)))
        if different.any():
            differing += int(different.sum())
            of_rows = np.square(np.where(np.isfinite(rows), rows, 0.0)).reshape(len(rows), -1).sum(axis=1)
            is_rounded = is_rounded and np.array_equal(rounded(rows, tensor.dtype), values, equal_nan=True)
            passed = [n for n in passed if np.array_equal(rounded(rows, n), values, equal_nan=True)]
            errors = np.square(np.where(different, rows - values, 0.0)).reshape(len(rows), -1).sum(axis=1)
            squares += float(errors.sum())
            size = np.maximum(of_rows, of_rows.mean() or 1.0)  # a small sum of large numbers has their error
            worst = max(worst, float(np.sqrt(np.where(errors > 0, errors / size, 0.0)).max()))
            if not is_rounded and not passed and not worst <= WORST_RATIO * allowed:
                break
    error = float(np.sqrt(squares / total)) if total else float(differing > 0)
    through = passed[0] if passed and differing else ""
    return Agreement(error, worst, differing, tensor.size, through, is_rounded, allowed)


def _is_float(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind not in "biuOSU"
    except TypeError:
        return False
