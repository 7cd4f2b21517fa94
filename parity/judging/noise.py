"""The reference's own rounding error: its runs in the working dtype compared with its run in float64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...runtime.errors import CellbridgeError
from ...runtime.ir.types import is_floating
from ..sides.abilities import HasProgram
from ..sides.records import Array, Key, Records
from ..sides.run import Jitter, Numbers, Run
from ..sides.side import Side
from ..verdicts.deviations import differing
from .measured_errors import ReferenceNoise, jitter_of
from .networks import network_of
from .rounding_bounds.cell_bounds import Bound, CellBounds

NoiseKey = Key | tuple[str, str]
"""A boundary, `("parameter", name)`, `("update", name)`, or a share `(name, path)`."""


class Noise(ReferenceNoise[NoiseKey]):
    """Largest errors of the reference in the working dtype, over several runs.

    The first run is the unchanged reference; the others apply a jitter of half a unit in the last place at every Cell
    boundary, so that the verdict doesn't depend on the chance of a single run. End to end, the last runs apply as much
    jitter as a Cell may deviate, and twice their errors pass: where values lie so close to a kink (for example, of
    a ReLU) that any passing Cell may push them across it, the jitter may push the reference across it too.

    Runs in float64 are judged by these errors scaled to double precision. Where the errors of the working dtype grow as
    large as the values, they say nothing about double precision: there the reference is run again in float64 with a
    jitter, and those errors count too. For a side that was read from a file or written by hand, the effect in float64
    of rounding its numbers to float32 counts as well.

    Where all this fails a side, `compute_bounds` adds what the computation itself may round; an error within it passes.

    With `unmeasured`, no run is made at first, as if there were no errors: a comparison that passes needs none.

    Attributes:
        first: records of the first run; the truth until there is one.
        rounded_numbers: whether the bar of meaning includes the effect of rounding numbers to float32.
        assumed: the error, relative to a tensor's largest element, if it is assumed and not measured; else 0.
    """

    assumed: float = 0.0

    def __init__(self, reference: Side, truth: Records, run: Run, *, unmeasured: bool = False) -> None:
        super().__init__(run.dtype)
        self.reference = reference
        self.truth = truth
        self.run = run
        self.rounded_numbers = False
        self.first = truth
        self._bounds: dict[NoiseKey, Bound] = {}
        if not unmeasured:
            self.sample()

    def allow_rounded_numbers(self, sides: Sequence[Side]) -> bool:
        """Add the effect of rounding numbers to float32 to the bar of meaning; return False if nothing is added.

        Args:
            sides: the sides, which may include the reference, whose numbers may have been rounded.
        """
        if self.rounded_numbers or not sides:
            return False
        run = replace(self.run, dtype="float64")
        for side in sides:
            exact = side.run(run)
            for way in range(1, side.capabilities.numbers.perturbations + 1):
                self._errors.add("float64", _measurable(side.run(replace(run, numbers=Numbers(perturbed=way))), exact))
        self.rounded_numbers = True
        return True

    def compute_bounds(self, paths: Iterable[str]) -> bool:
        """Compute the rounding errors of these Cells, or of the network end to end; return False if none is known."""
        if not isinstance(self.reference, HasProgram):
            return False
        try:
            feed = self.truth if self.run.feed is None else self.run.feed
            network = network_of(self.reference, replace(self.run, feed=feed))
        except CellbridgeError:  # it can't be captured
            return False
        cells = CellBounds(network, self.run.dtype)
        for bounds in [cells.of_network()] if self.run.feed is None else map(cells.of_cell, paths):
            self._bounds |= bounds
        return bool(self._bounds)

    def bound(self, key: NoiseKey, check: str) -> Bound | None:
        """The rounding error that each element of a value may have; None if unknown, and for meaning."""
        return self._bounds.get(key) if check == "rounding" else None

    def _measure(self, check: str, number: int) -> None:
        if check == "meaning":
            run = replace(self.run, dtype="float64", numbers=Numbers(Jitter(number + 1)))
            self._errors.add("float64", _measurable(self._run(run), self.truth))
            return
        alone = len(self.truth.calls) == 1  # a network of one Cell is always run as a whole
        units, reached = jitter_of(number, wide=self.run.feed is None or alone)
        records = self._run(replace(self.run, numbers=Numbers(Jitter(number, units) if number else None)))
        _share_integers(records, self.truth)
        self._errors.add(self.run.dtype, _measurable(records, self.truth), reached)
        if not number:
            self.first = records

    def _run(self, run: Run) -> Records:
        return self.reference.run(run)


def _share_integers(records: Records, truth: Records) -> None:
    """Replace integer arrays of the records by the truth's where they are equal, to hold each only once in memory."""
    for key, value in records.values.items():
        expected = truth.values.get(key)
        if expected is None or is_floating(value.dtype):
            continue
        if (value.dtype, value.shape) == (expected.dtype, expected.shape) and not differing(value, expected)[0]:
            records.values[key] = expected


def _measurable(records: Records, truth: Records) -> Iterator[tuple[NoiseKey, Array, Array]]:
    """Yield the pairs of floating-point arrays; integers are compared exactly."""
    for key, value, expected in _pairs(records, truth):
        if value.shape == expected.shape and is_floating(expected.dtype):
            yield key, value, expected


def _pairs(records: Records, truth: Records) -> Iterator[tuple[NoiseKey, Array, Array]]:
    for key, value in records.values.items():
        if key in truth.values:
            yield key, value, truth.values[key]
    for name, gradient in records.gradients.parameters.items():
        expected = truth.gradients.parameters.get(name)
        if gradient is not None and expected is not None:
            yield ("parameter", name), gradient, expected
    for share, value in records.gradients.shares.items():
        if share in truth.gradients.shares:
            yield share, value, truth.gradients.shares[share]
    for name, value in records.state.updates.items():
        if name in truth.state.updates:
            yield ("update", name), value, truth.state.updates[name]
