"""A training run compared with torch's: every quantity of every step is judged against the float64 truth."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...judging.measured_errors import ReferenceNoise, jitter_of, remeasure
from ...report.training_report import TrainingReport
from ...results.comparison import FAIL, PASS, Comparison
from ...results.training_result import KINDS
from ...sides.records import Array, Draw
from ...verdicts.deviations import size
from ...verdicts.judge import Tolerance, epsilon, judge
from .explanations import explanations
from .proofs import Proofs
from .quantities import Quantity, TrainingRecord

TrainReference = Callable[[str, int | None, float], TrainingRecord]
"""Trains the reference in a dtype, with the seed of a jitter (or None) and its size in units in the last place."""

Prove = Callable[[TrainingRecord, str, Sequence[Comparison]], Proofs]
"""Looks for the causes of differences in parameters: of a run, in a dtype, with its comparisons."""

STORED = ("parameter", "loss scale")
"""Kinds of quantities that keep their own dtype, whatever dtype the network computes in."""


class TrainingSide(Protocol):
    """A network that can be trained as torch trains it.

    Attributes:
        name: name of the side in the report.
        checks: ("meaning", "float64") if it can train in float64, and ("rounding", dtype).
    """

    name: str
    checks: tuple[tuple[str, str], ...]

    def run(self, dtype: str, draws: dict[Draw, Array]) -> TrainingRecord:
        """Train once, with torch's random draws."""

    def run_perturbed(self, draws: dict[Draw, Array]) -> TrainingRecord | None:
        """Train in float64 with numbers perturbed by a rounding; None if none may be rounded differently."""


class TrainingNoise(ReferenceNoise[tuple[int, Quantity]]):
    """Largest errors of torch's own training against its training in float64, over several runs in the working dtype.

    All runs except the first are jittered. The last runs apply as much jitter as a Cell may deviate, and twice their
    errors pass, as in `Noise`: where a gradient is so close to zero that a passing error may change its sign, an
    optimizer that divides it by its magnitude takes the step in the other direction.

    Training in float64 is judged by these errors, scaled to double precision. Such an optimizer amplifies a gradient
    that is nothing but rounding to the size of any other, unless eps is larger: then these errors say nothing about
    double precision. There torch is run in float64 with a jitter, and those errors count too. For a port, the effect of
    rounding the numbers that it holds in float32 (a learning rate, for example) counts as well.

    Args:
        run: trains torch's network; see `TrainReference`.
        truth: the training in float64.
        dtype: the working dtype.
        first: the run without jitter.
    """

    def __init__(self, run: TrainReference, truth: TrainingRecord, dtype: str, first: TrainingRecord) -> None:
        super().__init__(dtype)
        self.run = run
        self.truth = truth
        self.dtype = dtype
        self.first = first
        self._sides_with_rounded_numbers: set[str] = set()
        self._errors.add(dtype, _pairs(first, truth))
        self.samples["rounding"] = 1

    @property
    def overflows_from(self) -> int | None:
        """The first step, from 1, after which a quantity isn't finite in the working dtype although the truth is."""
        for step, (values, true) in enumerate(zip(self.first.steps, self.truth.steps, strict=True), 1):
            if any(np.any(~np.isfinite(values[q]) & np.isfinite(true[q])) for q in values.keys() & true.keys()):
                return step
        return None

    def _measure(self, check: str, number: int) -> None:
        dtype = "float64" if check == "meaning" else self.dtype
        units, reached = jitter_of(number, wide=check == "rounding")
        run = self.run(dtype, number, units)
        if run.overflowed == self.truth.overflowed:  # a run that skips other updates isn't comparable
            self._errors.add(dtype, _pairs(run, self.truth), reached)

    def allow_rounded_numbers(self, side: TrainingSide, run: TrainingRecord, draws: dict[Draw, Array]) -> bool:
        """Add the effect in float64 of rounding the side's numbers to float32 to the bar of meaning.

        Returns:
            False if it was added before, or if none of the side's numbers may be rounded differently from torch's.
        """
        perturbed = None if side.name in self._sides_with_rounded_numbers else side.run_perturbed(draws)
        self._sides_with_rounded_numbers.add(side.name)
        if perturbed is None:
            return False
        self._errors.add("float64", _pairs(perturbed, run))
        return True


def _pairs(run: TrainingRecord, truth: TrainingRecord) -> Iterator[tuple[tuple[int, Quantity], Array, Array]]:
    """Yield the quantities that both trainings have after each step, from 1."""
    for step, (values, true) in enumerate(zip(run.steps, truth.steps, strict=True), 1):
        for quantity in values.keys() & true.keys():
            yield (step, quantity), values[quantity], true[quantity]


def judge_training_side(
    report: TrainingReport,
    side: TrainingSide,
    truth: TrainingRecord,
    noise: Callable[[str, str], TrainingNoise],
    problems: Callable[[TrainingRecord], Iterator[str]],
    prove: Prove,
    rtol: float | None = None,
    atol: float | None = None,
) -> TrainingRecord | None:
    """Train a side, compare it with torch, and add the comparisons to the report.

    Args:
        report: the report on the trainings.
        side: the side to train.
        truth: torch's training in float64.
        noise: returns torch's noise for a check and a dtype; its truth skips the updates that torch skips in that
            dtype. Training in float64 is judged by the noise in float32, scaled to double precision.
        problems: yields the differences between torch and a run other than in numbers.
        prove: looks for causes, for as long as the run took.
        rtol: relative tolerance instead of the computed bar.
        atol: absolute tolerance instead of the computed bar.

    Returns:
        The first run of the side; None if it has no check.
    """
    first: TrainingRecord | None = None
    for check, dtype in side.checks:
        if any(c.side == side.name for c in report.failures):
            report.notes.append(f"{side.name}: rounding in {dtype} was not judged, since the results already differ")
            break
        run = side.run(dtype, truth.draws)
        measured = noise(check, dtype if check == "rounding" else "float32")
        true = truth if check == "meaning" else measured.truth
        comparisons = _judge_run(side, check, true, run, measured, truth.draws, Tolerance(measured.dtype, rtol, atol))
        report.comparisons += comparisons
        if check == "rounding" and (step := measured.overflows_from) is not None:
            note = (
                f"torch's own training overflows in {dtype} from step {step} on: from there, a side passes if it is "
                "right or isn't finite either"
            )
            report.notes += [note] if note not in report.notes else []
        _explain(report, true, run, comparisons, functools.partial(prove, run, dtype, comparisons))
        if first is None:
            first = run
            report.problems += problems(run)
    return first


def _explain(
    report: TrainingReport,
    truth: TrainingRecord,
    run: TrainingRecord,
    comparisons: list[Comparison],
    prove: Callable[[], Proofs],
) -> None:
    """Add the causes of what differs to the report, unless an earlier run had some."""
    failures = [c for c in comparisons if c.status != PASS]
    if not failures or report.causes or report.explanations:
        return
    if any(c.status == FAIL and c.kind in ("parameter", "buffer") for c in failures):
        proofs = prove()
        report.causes += proofs.causes
        report.explanations += [*([proofs.network] if proofs.network else []), *proofs.explanations]
        if proofs.causes or proofs.network:  # what else differs in that step isn't a consequence of its update
            step = min(c.call for c in failures)
            failures = [c for c in failures if c.call == step and c.kind == "buffer" and c.tensor not in proofs.tensors]
    report.explanations += explanations(truth, run, failures)


def _judge_run(
    side: TrainingSide,
    check: str,
    truth: TrainingRecord,
    run: TrainingRecord,
    noise: TrainingNoise,
    draws: dict[Draw, Array],
    tolerance: Tolerance,
) -> list[Comparison]:
    """Compare every quantity of every step, measuring the reference's own errors as often as needed."""

    def compare() -> list[Comparison]:
        return list(_comparisons(side.name, check, truth, run, noise, tolerance))

    def is_rounded() -> bool:
        return check == "meaning" and noise.allow_rounded_numbers(side, run, draws)

    return remeasure(compare(), compare, (_fails, is_rounded), (_fails, lambda: noise.sample(check)))


def _fails(comparisons: list[Comparison]) -> bool:
    return any(c.status != PASS for c in comparisons)


def _comparisons(
    side: str, check: str, truth: TrainingRecord, run: TrainingRecord, noise: TrainingNoise, tolerance: Tolerance
) -> Iterator[Comparison]:
    steps = zip(truth.steps, run.steps, noise.first.steps, strict=False)
    for number, (true, values, reference) in enumerate(steps, 1):
        for quantity in sorted(true, key=lambda q: KINDS.index(q.kind)):
            if quantity not in values:
                continue
            noisy, dtype = 0.0 if quantity.kind == "loss scale" else noise.error((number, quantity), check), noise.dtype
            if check == "rounding" and quantity.kind in STORED:
                perturbed = true[quantity] - truth.start.get(quantity, true[quantity])
                noisy, dtype = max(noisy, epsilon(dtype) * size(np.asarray(perturbed))), reference[quantity].dtype.name
            fields: dict[str, Any] = judge(
                check,
                values[quantity],
                true[quantity],
                reference.get(quantity, true[quantity]),
                noisy,
                replace(tolerance, dtype=dtype),
            )
            yield Comparison(side, check, "end to end", quantity.kind, quantity.name, number, **fields)
