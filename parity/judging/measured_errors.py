"""The reference's own errors, measured over several runs; used for networks and for training runs.

Before an error of another side counts as too large, the reference's own error is measured again: `remeasure`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from ..sides.records import Array
from ..verdicts.deviations import reference_error
from ..verdicts.judge import ROUNDING_FACTOR, epsilon

MAX_SAMPLES = 12
MAX_FLOAT64_SAMPLES = 2

ErrorKey = TypeVar("ErrorKey", bound=Hashable)
Result = TypeVar("Result")


class MeasuredErrors(Generic[ErrorKey]):
    """The largest errors of a reference, by key.

    They are measured in the working dtype; and also in float64, if rounding errors grow so much that those in the
    working dtype say nothing about double precision.

    Args:
        dtype: the working dtype.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self._errors: dict[tuple[ErrorKey, str], float] = {}

    def add(self, dtype: str, pairs: Iterable[tuple[ErrorKey, Array, Array]], factor: float = 1.0) -> None:
        """Add the errors of one run.

        Args:
            dtype: dtype of the run: the working dtype, or "float64".
            pairs: key, the run's value, and the true value of the same shape.
            factor: divisor of this run's errors.
        """
        known: dict[tuple[int, int], tuple[float, Array, Array]] = {}  # values at several boundaries may be one array
        for key, value, expected in pairs:
            arrays = id(value), id(expected)
            if arrays not in known:
                known[arrays] = reference_error(value, expected) / factor, value, expected
            error = known[arrays][0]
            self._errors[key, dtype] = max(self._errors.get((key, dtype), 0.0), error)

    def of(self, key: ErrorKey, check: str) -> float:
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


class ReferenceNoise(ABC, Generic[ErrorKey]):
    """The errors of a reference against its truth in float64, measured in as many runs as needed.

    Args:
        dtype: the working dtype.

    Attributes:
        samples: number of runs made for each check: "rounding" in the working dtype, "meaning" in float64.
    """

    def __init__(self, dtype: str) -> None:
        self.samples = {"rounding": 0, "meaning": 0}
        self._errors = MeasuredErrors[ErrorKey](dtype)

    def error(self, key: ErrorKey, check: str = "rounding") -> float:
        """Largest error of a value; for "meaning", errors in float64 count too, scaled to the working dtype."""
        return self._errors.of(key, check)

    def sample(self, check: str = "rounding") -> bool:
        """Make one more run in the dtype of a check; False if enough have been made."""
        if self.samples[check] >= (MAX_SAMPLES if check == "rounding" else MAX_FLOAT64_SAMPLES):
            return False
        self._measure(check, self.samples[check])
        self.samples[check] += 1
        return True

    @abstractmethod
    def _measure(self, check: str, number: int) -> None:
        """Make a run, the n-th of its check, and add its errors."""


def remeasure(
    result: Result, compare: Callable[[], Result], *measures: tuple[Callable[[Result], bool], Callable[[], bool]]
) -> Result:
    """Return the result of a comparison after measuring the reference's own errors as often as needed.

    Args:
        result: that of the first comparison.
        compare: compares again, with the errors measured so far.
        measures: pairs of functions, applied in order: the first returns whether a result requires more measurements;
            the second measures more, and returns False if there is nothing more to measure.
    """
    for is_needed, measure in measures:
        while is_needed(result) and measure():
            result = compare()
    return result
