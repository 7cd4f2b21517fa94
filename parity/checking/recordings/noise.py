"""The rounding error of a reference that was recorded, and can't be run again."""

from __future__ import annotations

import math

from ...judging.noise import Noise, NoiseKey
from ...sides.records import Array, Key, Records
from ...sides.run import Run
from ...sides.side import Side
from ...verdicts.deviations import size
from ...verdicts.judge import epsilon

UNKNOWN = 8.0
"""Units in the last place that a reference without float64 is taken to be wrong by, times the root of its calls."""


class RecordedNoise(Noise):
    """The rounding error of one recorded run in the working dtype, `working`; no other is made."""

    def __init__(self, reference: Side, truth: Records, run: Run, working: Records) -> None:
        self._working = working
        super().__init__(reference, truth, run)

    def sample(self, check: str = "rounding") -> bool:
        """Measure the error of the recorded run; False if that was done."""
        return check == "rounding" and not self.samples[check] and super().sample(check)

    def _run(self, run: Run) -> Records:
        return self._working


class AssumedNoise(Noise):
    """The rounding error of a reference that was recorded in its working dtype alone: it isn't known, but assumed.

    It is taken to be `UNKNOWN` units in the last place of a tensor's largest element, times the square root of the
    number of calls: roundings that add up at random.
    """

    def __init__(self, reference: Side, truth: Records, run: Run) -> None:
        super().__init__(reference, truth, run, unmeasured=True)
        self.assumed = UNKNOWN * epsilon(run.dtype) * math.sqrt(max(1, len(truth.calls)))

    def sample(self, check: str = "rounding") -> bool:
        """Return False: nothing can be measured."""
        return False

    def error(self, key: NoiseKey, check: str = "rounding") -> float:
        """The assumed error of a value."""
        value = self.truth.values.get(key) if isinstance(key, Key) else self._named(*key)
        return 0.0 if value is None else self.assumed * size(value)

    def _named(self, what: str, name: str) -> Array | None:
        return self.truth.gradients.parameters.get(name) if what == "parameter" else self.truth.state.updates.get(name)
