"""The reference's own errors, measured over several runs; used for networks and for training runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from ..sides.records import Array
from ..verdicts.deviations import reference_error
from ..verdicts.judge import ROUNDING_FACTOR, epsilon

MAX_SAMPLES = 12
MAX_FLOAT64_SAMPLES = 2

Key = TypeVar("Key", bound=Hashable)


class MeasuredErrors(Generic[Key]):
    """The largest errors of a reference, by key.

    They are measured in the working dtype; and also in float64, if rounding errors grow so much that those in the
    working dtype say nothing about double precision.

    Args:
        dtype: the working dtype.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self._errors: dict[tuple[Key, str], float] = {}

    def add(self, dtype: str, pairs: Iterable[tuple[Key, Array, Array]], factor: float = 1.0) -> None:
        """Add the errors of one run.

        Args:
            dtype: dtype of the run: the working dtype, or "float64".
            pairs: key, the run's value, and the true value of the same shape.
            factor: divisor of this run's errors.
        """
        for key, value, expected in pairs:
            error = reference_error(value, expected) / factor
            self._errors[key, dtype] = max(self._errors.get((key, dtype), 0.0), error)

    def of(self, key: Key, check: str) -> float:
        """The largest error for a check; for "meaning", errors in float64 count too, scaled to the working dtype."""
        largest = self._errors.get((key, self.dtype), 0.0)
        if check == "rounding":
            return largest
        return max(largest, self._errors.get((key, "float64"), 0.0) * epsilon(self.dtype) / epsilon("float64"))


def jitter_of(sample: int, *, wide: bool) -> tuple[float, float]:
    """Return the jitter of the n-th run, in units in the last place, and the divisor of its errors.

    If `wide`, the last runs are jittered by as much as a Cell may deviate, and twice their errors pass.
    """
    if not wide or sample < MAX_SAMPLES // 2:
        return 0.5, 1.0
    return 0.5 * ROUNDING_FACTOR, ROUNDING_FACTOR / 2
