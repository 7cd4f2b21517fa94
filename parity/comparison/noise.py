"""The reference's own rounding error, measured: its runs in the working dtype against its run in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...runtime.ir.types import is_floating
from ..sides.records import Array, Key, Records, Run, Side
from ..verdicts.deviations import differing
from .measured_errors import MAX_FLOAT64_SAMPLES, MAX_SAMPLES, MeasuredErrors, jitter_of

ErrorKey = Key | tuple[str, str]
"""A boundary, `("parameter", name)`, `("update", name)`, or a share `(name, path)`."""


class Noise:
    """Largest errors of the reference in the working dtype, over several runs.

    The first run is the reference as it is; the others apply a jitter of half a unit in the last place at every Cell
    boundary, so that the luck of a single run doesn't decide. End to end, the last ones apply as much as a Cell may be
    off by itself, and their errors may be reached twice over: where values lie so close to a kink (of a ReLU, say)
    that any Cell that passes may move them across, the reference may be moved across too.

    What is computed in float64 is held to these errors scaled to double precision. Where rounding errors grow so much
    that those of the working dtype are as large as the values, they tell nothing about double precision: there the
    reference in float64 is run again with a jitter, and its errors count too. So does what a side in float64 makes of
    its numbers' rounding to float32, where it was read from a file or written by hand.

    It may begin `unmeasured`, as if there were no errors: what passes so needs no run.

    Attributes:
        first: records of the first run; the truth before there is one.
        samples: how many runs have been made in the working dtype.
        double_samples: how many jittered runs have been made in float64.
        rounded_numbers: whether meaning may be off by what a rounding of numbers makes of it.
    """

    def __init__(self, reference: Side, truth: Records, run: Run, *, unmeasured: bool = False) -> None:
        self.reference = reference
        self.truth = truth
        self.run = run
        self.samples = 0
        self.double_samples = 0
        self.rounded_numbers = False
        self._errors = MeasuredErrors[ErrorKey](run.dtype)
        self.first = truth
        if not unmeasured:
            self.sample()

    def error(self, key: ErrorKey, check: str = "rounding") -> float:
        """Largest error of a value; for "meaning", those in float64 count as they would in the working dtype."""
        return self._errors.of(key, check)

    def sample(self) -> bool:
        """Make one more run; False if enough have been made."""
        if self.samples >= MAX_SAMPLES:
            return False
        if self.samples:
            self._sample(self.samples)
        else:
            self.first = self._sample(None)
        return True

    def sample_double(self) -> bool:
        """Make one more run in float64, with a jitter; False if enough have been made."""
        if self.double_samples >= MAX_FLOAT64_SAMPLES:
            return False
        self.double_samples += 1
        run = replace(self.run, dtype="float64", jitter=self.double_samples)
        self._errors.add("float64", _measurable(self.reference.run(run), self.truth))
        return True

    def allow_rounded_numbers(self, sides: Sequence[Side]) -> bool:
        """Let meaning be off by what a rounding of the numbers that these sides hold makes of it; False if it may.

        Args:
            sides: of the reference and the sides under test, those that hold `rounded_numbers`.
        """
        if self.rounded_numbers or not sides:
            return False
        run = replace(self.run, dtype="float64")
        for side in sides:
            exact = side.run(run)
            for way in range(1, side.capabilities.perturbations + 1):
                self._errors.add("float64", _measurable(side.run(replace(run, perturbed=way)), exact))
        self.rounded_numbers = True
        return True

    def _sample(self, jitter: int | None) -> Records:
        alone = len(self.truth.calls) == 1  # fed or not, such a network is run as a whole
        units, reached = jitter_of(self.samples, wide=self.run.feed is None or alone)
        records = self.reference.run(replace(self.run, jitter=jitter, jitter_units=units))
        _share_integers(records, self.truth)
        self._errors.add(self.run.dtype, _measurable(records, self.truth), reached)
        self.samples += 1
        return records


def _share_integers(records: Records, truth: Records) -> None:
    """Let records hold the truth's arrays of integers where their own are equal: each once in memory."""
    for key, value in records.values.items():
        expected = truth.values.get(key)
        if expected is None or is_floating(value.dtype):
            continue
        if (value.dtype, value.shape) == (expected.dtype, expected.shape) and not differing(value, expected)[0]:
            records.values[key] = expected


def _measurable(records: Records, truth: Records) -> Iterator[tuple[ErrorKey, Array, Array]]:
    """The pairs of floating-point numbers: integers are compared exactly."""
    for key, value, expected in _pairs(records, truth):
        if value.shape == expected.shape and is_floating(expected.dtype):
            yield key, value, expected


def _pairs(records: Records, truth: Records) -> Iterator[tuple[ErrorKey, Array, Array]]:
    for key, value in records.values.items():
        if key in truth.values:
            yield key, value, truth.values[key]
    for name, gradient in records.parameter_gradients.items():
        expected = truth.parameter_gradients.get(name)
        if gradient is not None and expected is not None:
            yield ("parameter", name), gradient, expected
    for share, value in records.shares.items():
        if share in truth.shares:
            yield share, value, truth.shares[share]
    for name, value in records.updates.items():
        if name in truth.updates:
            yield ("update", name), value, truth.updates[name]
