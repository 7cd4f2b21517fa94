"""The reference's own rounding error, measured: its runs in the working dtype against its run in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .judge import error
from .sides.records import Array, Key, Records, Run, Side

MOST_SAMPLES = 8


class Noise:
    """Largest errors of the reference in the working dtype, over several runs.

    The first run is the reference as it is; the others apply a jitter of half a unit in the last place at every Cell
    boundary, so that the luck of a single run doesn't decide.

    Attributes:
        first: records of the first run.
        samples: how many runs have been made.
    """

    def __init__(self, reference: Side, truth: Records, run: Run) -> None:
        self.reference = reference
        self.truth = truth
        self.run = run
        self.samples = 0
        self._errors: dict[Key | tuple[str, str], float] = {}
        self.first = self._sample(None)

    def error(self, key: Key | tuple[str, str]) -> float:
        """Largest error at a boundary, or of `("parameter", name)`, `("update", name)`, or a share `(name, path)`."""
        return self._errors.get(key, 0.0)

    def sample(self) -> bool:
        """Make one more run; False if enough have been made."""
        if self.samples >= MOST_SAMPLES:
            return False
        self._sample(self.samples)
        return True

    def _sample(self, jitter: int | None) -> Records:
        records = self.reference.run(replace(self.run, jitter=jitter))
        for key, value, truth in _pairs(records, self.truth):
            if value.shape == truth.shape:
                self._errors[key] = max(self._errors.get(key, 0.0), error(value, truth)[0])
        self.samples += 1
        return records


def _pairs(records: Records, truth: Records) -> Iterator[tuple[Key | tuple[str, str], Array, Array]]:
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
