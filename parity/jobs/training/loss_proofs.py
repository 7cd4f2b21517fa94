"""Whether a candidate trains as the reference does with another loss, found out by replaying the steps with it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ...causes.budget import Budget
from ...results.cause import Cause
from ...sides.records import Array
from .losses.calls import Change, LossCall, RecordedLoss, Surroundings
from .losses.changes import LossChange, changes_to, known_changes
from .proofs import Proofs, prove
from .updates.trajectory import Trajectory, first_difference

MAX_TRIALS = 40
"""The most losses that are tried; each costs a training in float64."""

Gradients = Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class LossTrials:
    """Trains with other losses until the gradients of both sides agree.

    Attributes:
        reference: the reference's calls of loss functions, in order.
        candidate: the candidate's, if it is in torch; else empty.
        with_reference_loss: returns the trajectory in which the reference computes another loss; None if too little is
            recorded.
        with_candidate_loss: returns what the candidate's optimizer gets in each step with another loss; None for a
            candidate that isn't in torch.
    """

    reference: Sequence[RecordedLoss]
    candidate: Sequence[RecordedLoss]
    with_reference_loss: Callable[[Change], Trajectory | None]
    with_candidate_loss: Callable[[Change], Gradients | None]

    def proofs(self, trajectory: Trajectory, budget: Budget) -> Proofs | None:
        """Return the causes if another loss explains the gradients; None otherwise.

        Args:
            trajectory: of both sides as they are.
            budget: of all replays together.
        """
        for changes, in_reference in itertools.islice(self._trials(), MAX_TRIALS):
            if budget.is_spent:
                return None
            change = functools.partial(_apply, changes)
            others = self._of_reference(change, budget) if in_reference else self._of_candidate(change, trajectory)
            if others is not None:
                causes = [*(_cause(change, in_reference, trajectory.steps) for change in changes), *others]
                return Proofs([replace(cause, together=len(causes)) for cause in causes])
        return None

    def _of_reference(self, change: Change, budget: Budget) -> list[Cause] | None:
        """Return what else differs if the reference has another loss; None if the gradients still differ."""
        changed = self.with_reference_loss(change)
        if changed is None:
            return None
        agree = first_difference(changed.gradients, changed.expected, changed.unit) is None
        proofs = prove(changed, budget)
        return proofs.causes if proofs.causes or (agree and not changed.differing()) else None

    def _of_candidate(self, change: Change, trajectory: Trajectory) -> list[Cause] | None:
        """Return nothing else if the candidate has another loss; None if the gradients still differ."""
        gradients = self.with_candidate_loss(change)
        agree = gradients is not None and first_difference(gradients, trajectory.expected, trajectory.unit) is None
        return [] if agree and not trajectory.differing() else None

    def _trials(self) -> Iterator[tuple[Sequence[LossChange], bool]]:
        """Yield changes to try together, and whether they are the reference's: what both scripts show comes first."""
        if self.reference and self.candidate and len(self.reference) == len(self.candidate):
            changes = list(changes_to(self.reference[0], self.candidate))
            yield from (([change], True) for change in changes)
            if len(changes) > 1:
                yield changes, True
        if self.reference:
            yield from (([change], True) for change in known_changes(self.reference[0]))
        if self.candidate:
            yield from (([change], False) for change in known_changes(self.candidate[0]))


def _apply(changes: Sequence[LossChange], call: LossCall, number: int, around: Surroundings) -> LossCall | torch.Tensor:
    """Make all changes of a call."""
    result: LossCall | torch.Tensor = call
    for change in changes:
        if isinstance(result, LossCall):
            result = change.change(result, number, around)
    return result


def _cause(change: LossChange, in_reference: bool, steps: int) -> Cause:
    """Return the cause that a change of one side's loss shows: the other side has it."""
    (reference, candidate), values = change.words, (change.before, change.after)
    if not in_reference:
        reference, candidate, values = candidate, reference, (change.after, change.before)
    return Cause(
        "loss",
        f"the candidate's loss {candidate}; the reference's loss {reference}",
        f"change the candidate's loss so that it {reference}",
        attribute=change.name, reference_value=values[0], candidate_value=values[1], steps=steps,
    )  # fmt: skip
