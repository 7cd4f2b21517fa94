"""`Trajectory`: what was recorded of a candidate's training, and of the reference led along the same way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....sides.records import Array
from ....verdicts.deviations import size
from .rules import Rule, replay

MAX_SHARE = 1e-5
"""The largest share of an update that a replay may be off by: numbers held in float32 cost 1e-7."""
SIMILAR = 1e-7
"""The largest relative difference of gradients that are the same; of the largest gradient for very small ones."""
SMALL = 1e-6

Gradients = Mapping[str, Array]
Plan = Mapping[str, Sequence[Rule]]
"""The rules of each parameter, one for each step; without rules, a parameter isn't updated."""


@dataclass(frozen=True)
class Trajectory:
    """Parameters of the candidate, step by step, and gradients there; all in float64.

    Attributes:
        parameters: the candidate's parameters before the first and after every step, by name in the torch module.
        gradients: what the candidate's optimizer got in each step.
        passes: the gradients of each of the reference's backward passes since its update before, at the candidate's
            parameters.
        expected: what the reference's optimizer got in each step there.
        plan: the reference's rules.
        bars: returns how far a parameter may be off after a step, from 0.
        unit: spacing of the numbers at 1 in which the candidate computed.
        batches: number of backward passes per step in the reference.
        batch_size: number of examples of a batch; 0 if unknown.
        scale: factor of the loss in the reference's backward pass; 1 if unknown.
        own_passes: the gradients of each of the candidate's backward passes; empty if unknown.
    """

    parameters: Sequence[Gradients]
    gradients: Sequence[Gradients]
    passes: Sequence[Sequence[Gradients]]
    expected: Sequence[Gradients]
    plan: Plan
    bars: Callable[[str, int], float]
    unit: float
    batches: int = 1
    batch_size: int = 0
    scale: float = 1.0
    own_passes: Sequence[Sequence[Gradients]] = ()

    @functools.cached_property
    def sums(self) -> Sequence[Gradients]:
        """The sum of the reference's gradients since its update before, at the candidate's parameters."""
        return [sum_of(passes) for passes in self.passes]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.gradients)

    def finite(self) -> Trajectory:
        """Return the steps before the first with a number that isn't finite: a training may diverge."""

        def are_finite(*groups: Gradients) -> bool:
            return all(np.all(np.isfinite(array)) for group in groups for array in group.values())

        recorded = zip(self.parameters[1:], self.gradients, self.sums, self.expected, strict=True)
        diverged = (step for step, groups in enumerate(recorded) if not are_finite(*groups))
        count = next(diverged, self.steps)
        return replace(
            self,
            parameters=self.parameters[: count + 1],
            gradients=self.gradients[:count],
            passes=self.passes[:count],
            own_passes=self.own_passes[:count],
            expected=self.expected[:count],
            plan={name: rules[:count] for name, rules in self.plan.items()},
        )

    def sample(self, count: int) -> Trajectory:
        """Return the trajectory of at most so many elements of each parameter; a rule treats each element alike."""

        def part(array: Array) -> Array:
            return array.ravel()[:: max(1, -(-array.size // count))]

        parameters, gradients = (
            [{name: part(array) for name, array in step.items()} for step in steps]
            for steps in (self.parameters, self.gradients)
        )
        return replace(self, parameters=parameters, gradients=gradients, passes=(), expected=(), own_passes=())

    def changes(self, name: str) -> list[Array]:
        """The candidate's change of a parameter in each step."""
        return [after[name] - before[name] for before, after in zip(self.parameters, self.parameters[1:], strict=False)]

    @functools.cached_property
    def largest_change(self) -> float:
        """The largest change of any parameter in any step."""
        return max((size(change) for name in self.parameters[0] for change in self.changes(name)), default=0.0)

    def prediction(self, name: str, rules: Sequence[Rule]) -> list[Array]:
        """The change of a parameter in each step by these rules; none if there are no rules."""
        before = [step[name] for step in self.parameters[: self.steps]]
        if not rules:
            return [np.zeros_like(parameter) for parameter in before]
        with np.errstate(all="ignore"):
            return replay(rules, [step[name] for step in self.gradients], before)

    def can_replay(self, name: str, rules: Sequence[Rule]) -> bool:
        """Whether everything is recorded that a replay needs."""
        return not rules or (len(rules) == self.steps and all(name in step for step in self.gradients))

    def limit(self, name: str, step: int, change: Array) -> float:
        """How far a replay may be off in a step."""
        rounding = 8 * self.unit * max(size(self.parameters[step][name]), size(self.parameters[step + 1][name]))
        return min(max(self.bars(name, step), rounding), MAX_SHARE * size(change) + rounding)

    def error(self, name: str, rules: Sequence[Rule]) -> float:
        """The largest error of a replay, relative to the largest change of any parameter.

        It is infinite if the replay doesn't agree in every step.
        """
        if not self.can_replay(name, rules):
            return np.inf
        worst = 0.0
        for step, (change, predicted) in enumerate(zip(self.changes(name), self.prediction(name, rules), strict=True)):
            off = size(predicted - change)
            if not np.all(np.isfinite(predicted)) or off > self.limit(name, step, change):
                return np.inf
            worst = max(worst, off)
        return worst / (self.largest_change or 1.0)

    def agrees(self, names: Iterable[str], plan: Plan) -> bool:
        """Whether the replay by a plan agrees in these parameters in every step."""
        return all(np.isfinite(self.error(name, plan.get(name, ()))) for name in names)

    def differing(self) -> list[str]:
        """The parameters that the reference's rules don't explain."""
        return [name for name in self.parameters[0] if not self.agrees([name], self.plan)]


def sum_of(passes: Iterable[Gradients]) -> dict[str, Array]:
    """Return the sum of the gradients of several backward passes; a pass needn't have a gradient of each parameter."""
    result: dict[str, Array] = {}
    for gradients in passes:
        for name, gradient in gradients.items():
            result[name] = result[name] + gradient if name in result else gradient
    return result


def first_difference(candidate: Sequence[Gradients], reference: Sequence[Gradients], unit: float) -> int | None:
    """The first step, from 1, in which gradients that both have differ; None if they don't."""
    for step, (candidate_step, reference_step) in enumerate(zip(candidate, reference, strict=True), 1):
        if not similar(candidate_step, reference_step, unit):
            return step
    return None


def similar(candidate: Gradients, reference: Gradients, unit: float) -> bool:
    """Whether the gradients that both have agree; `unit` is the spacing of their numbers at 1."""
    shared = candidate.keys() & reference.keys()
    largest = max((size(reference[name]) for name in shared), default=0.0)
    return all(
        size(candidate[name] - reference[name]) <= max(SIMILAR, 32 * unit) * max(size(reference[name]), SMALL * largest)
        for name in shared
    )
