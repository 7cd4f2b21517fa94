"""A training held against torch's: every quantity of every step is judged against the float64 truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from .judge import Tolerance, epsilon, error, judge, size
from .noise import MOST_SAMPLES
from .results import PASS, Comparison
from .sides.quantities import KINDS, Quantity, Training
from .sides.records import Array, Draw
from .training_causes import causes
from .training_report import TrainingReport

STORED = ("parameter", "loss scale")
"""What is kept in its own dtype, whatever dtype the network computes in."""


class TrainingSide(Protocol):
    """A network that can be trained as torch trains it.

    Attributes:
        name: what the report calls it.
        checks: ("meaning", "float64") where it trains in float64, and ("rounding", dtype).
    """

    name: str
    checks: tuple[tuple[str, str], ...]

    def run(self, dtype: str, draws: dict[Draw, Array]) -> Training:
        """Train once, with the random draws of torch."""


class TrainingNoise:
    """How far torch itself is from a training in float64, over several runs in the working dtype.

    Args:
        run: trains in the working dtype; with the seed of a jitter, or None for none.
        truth: the training in float64.
        dtype: the working dtype.

    Attributes:
        first: the run without jitter.
    """

    def __init__(self, run: Callable[[int | None], Training], truth: Training, dtype: str, first: Training) -> None:
        self.run = run
        self.truth = truth
        self.dtype = dtype
        self.first = first
        self.samples = 1
        self._errors: dict[tuple[int, Quantity], float] = {}
        self._measure(first)

    def error(self, step: int, quantity: Quantity) -> float:
        """The largest error of a quantity after a step, counted from 1."""
        return self._errors.get((step, quantity), 0.0)

    def sample(self) -> bool:
        """Make one more run, jittered; False if enough have been made."""
        if self.samples >= MOST_SAMPLES:
            return False
        run = self.run(self.samples)
        self.samples += 1
        if run.overflowed == self.first.overflowed:  # one that leaves out another update goes elsewhere
            self._measure(run)
        return True

    def _measure(self, run: Training) -> None:
        for step, (found, true) in enumerate(zip(run.steps, self.truth.steps, strict=True), 1):
            for quantity in found.keys() & true.keys():
                larger = error(found[quantity], true[quantity])[0]
                self._errors[step, quantity] = max(self.error(step, quantity), larger)


def hold(
    report: TrainingReport,
    side: TrainingSide,
    truth: Training,
    noise: Callable[[str, str], TrainingNoise],
    problems: Callable[[Training], Iterator[str]],
    rtol: float | None = None,
    atol: float | None = None,
) -> Training | None:
    """Train a side, compare it with torch, and add what is found to the report.

    Args:
        report: of the trainings.
        side: what is trained.
        truth: torch's training in float64.
        noise: that of torch, for a check, in a dtype: its own truth leaves out the updates that are left out in that
            dtype. What is computed in float64 is held to that of float32, scaled to double precision.
        problems: what differs between torch and a run in more than numbers.
        rtol: in place of the computed bar.
        atol: in place of the computed bar.

    Returns:
        The first run of the side; None if it has no check.
    """
    first: Training | None = None
    for check, dtype in side.checks:
        if any(c.side == side.name for c in report.failures):
            report.notes.append(f"{side.name}: rounding in {dtype} was not judged: what is computed differs already")
            break
        run = side.run(dtype, truth.draws)
        measured = noise(check, dtype if check == "rounding" else "float32")
        true = truth if check == "meaning" else measured.truth
        found = compare(side.name, check, true, run, measured, rtol, atol)
        report.comparisons += found
        if first is None:
            first = run
            report.problems += problems(run)
            report.causes = report.causes or causes(true, run, [c for c in found if c.status != PASS])
    return first


def compare(
    side: str,
    check: str,
    truth: Training,
    run: Training,
    noise: TrainingNoise,
    rtol: float | None = None,
    atol: float | None = None,
) -> list[Comparison]:
    """Every quantity of every step. Before rounding is called too large, the reference's is measured again."""
    while True:
        found = list(_comparisons(side, check, truth, run, noise, rtol, atol))
        if check == "meaning" or all(c.status == PASS for c in found) or not noise.sample():
            return found


def _comparisons(
    side: str,
    check: str,
    truth: Training,
    run: Training,
    noise: TrainingNoise,
    rtol: float | None,
    atol: float | None,
) -> Iterator[Comparison]:
    steps = zip(truth.steps, run.steps, noise.first.steps, strict=False)
    for number, (true, found, reference) in enumerate(steps, 1):
        for quantity in sorted(true, key=lambda q: KINDS.index(q.kind)):
            if quantity not in found:
                continue
            noisy, dtype = 0.0 if quantity.kind == "loss scale" else noise.error(number, quantity), noise.dtype
            if check == "rounding" and quantity.kind in STORED:
                moved = true[quantity] - truth.start.get(quantity, true[quantity])
                noisy, dtype = max(noisy, epsilon(dtype) * size(np.asarray(moved))), reference[quantity].dtype.name
            fields: dict[str, Any] = judge(
                check,
                found[quantity],
                true[quantity],
                reference.get(quantity, true[quantity]),
                noisy,
                Tolerance(dtype, rtol, atol),
            )
            yield Comparison(side, check, "end to end", quantity.kind, quantity.name, number, **fields)
