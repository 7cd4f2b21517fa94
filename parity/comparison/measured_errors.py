"""The errors that a reference makes by itself, measured over several runs: those of networks and of trainings alike."""

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
    """The largest errors of a reference, by what they are errors of.

    They are measured in the working dtype, and, where rounding grows so much that those tell nothing about double
    precision, in float64.

    Args:
        dtype: the working dtype.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self._errors: dict[tuple[Key, str], float] = {}

    def add(self, dtype: str, pairs: Iterable[tuple[Key, Array, Array]], factor: float = 1.0) -> None:
        """Measure one run.

        Args:
            dtype: of the run: the working dtype, or "float64".
            pairs: what is measured, the run's value, and the true one, of one shape.
            factor: what the errors of this run are divided by.
        """
        for key, value, expected in pairs:
            error = reference_error(value, expected) / factor
            self._errors[key, dtype] = max(self._errors.get((key, dtype), 0.0), error)

    def of(self, key: Key, check: str) -> float:
        """The largest error for a check; for "meaning" those in float64 count as they would in the working dtype."""
        found = self._errors.get((key, self.dtype), 0.0)
        if check == "rounding":
            return found
        return max(found, self._errors.get((key, "float64"), 0.0) * epsilon(self.dtype) / epsilon("float64"))


def jitter_of(sample: int, *, wide: bool) -> tuple[float, float]:
    """Of the n-th run: by how many units in the last place it is jittered, and what its errors are divided by.

    Where `wide`, the last runs are jittered by as much as a Cell may be off, and what passes may reach their errors
    twice over.
    """
    if not wide or sample < MAX_SAMPLES // 2:
        return 0.5, 1.0
    return 0.5 * ROUNDING_FACTOR, ROUNDING_FACTOR / 2
