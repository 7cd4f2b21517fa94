"""How the gradients of the backward passes of a step are put together, where both sides do it differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....results.cause import Cause
from ....sides.records import Array
from .numbers import plain_numbers
from .trajectory import Gradients, Trajectory, similar, sum_of
from .treatment import ADDED_TO_NORM, NORM, Treatment, clipped, treatments
from .words import HERE, KIND, THERE

SUM, LAST, CLIPPED = "sum", "last", "clipped"
LEAST_EQUATIONS = 4
"""The least number of elements for each weight that is estimated."""
SAME = 1e-6
"""The largest relative difference of weights that are the same."""

Passes = Sequence[Sequence[Gradients]]
"""For each step, the gradients of each of its backward passes."""


@dataclass(frozen=True)
class Accumulation:
    """How an optimizer's gradients come from those of backward passes.

    Attributes:
        kind: `SUM` of all passes, the `LAST` pass alone, or the sum `CLIPPED` after each pass.
        treatment: what is done to the result.
    """

    kind: str
    treatment: Treatment


def cause_of_accumulation(trajectory: Trajectory) -> Cause | None:
    """Return the cause if both sides put the gradients of micro-batches together differently; None otherwise.

    The micro-batches are the candidate's, where its backward passes are recorded, or else the reference's.
    """
    for passes, are_own in ((trajectory.own_passes, True), (trajectory.passes, False)):
        count = max(map(len, passes), default=0)
        if count < 2:
            continue
        reference = next(_accumulations(passes, trajectory.expected, Treatment(), trajectory.unit), None)
        like = Treatment() if reference is None else reference.treatment
        candidate = next(_accumulations(passes, trajectory.gradients, like, trajectory.unit), None)
        if reference is not None and candidate is not None and reference.kind != candidate.kind:
            return _cause_of_kinds(reference, candidate, count)
        weights = _relative_weights(trajectory, passes, are_own)
        if weights is not None:
            return _cause_of_weights(weights, count)
    return _cause_of_stale_gradients(trajectory)


def _accumulations(
    passes: Passes, results: Sequence[Gradients], like: Treatment, unit: float
) -> Iterator[Accumulation]:
    """Yield the ways to put passes together that explain what an optimizer got, the usual one first."""
    combine: dict[str, Callable[[Sequence[Gradients]], Gradients]] = {SUM: sum_of, LAST: lambda step: step[-1]}
    for kind, combined in combine.items():
        starts = [combined(step) if step else {} for step in passes]
        if treatment := next(treatments(starts, results, like, unit=unit), None):
            yield Accumulation(kind, treatment)
    longest = max((_norm(step) for step in results), default=0.0)
    for limit in (like.limit, *plain_numbers(longest)):
        if 0 < limit < np.inf and all(
            similar(_clipped_sum(step, limit), result, unit) for step, result in zip(passes, results, strict=True)
        ):
            yield Accumulation(CLIPPED, Treatment(clip=NORM, limit=limit))


def _clipped_sum(passes: Sequence[Gradients], limit: float) -> Gradients:
    """Add up gradients, and clip the sum to a norm after each pass."""
    result: Gradients = {}
    for gradients in passes:
        result = clipped(sum_of([result, gradients]), NORM, limit)
    return result


def _norm(gradients: Gradients) -> float:
    return float(np.sqrt(sum(float((gradient * gradient).sum()) for gradient in gradients.values()))) + ADDED_TO_NORM


def _relative_weights(trajectory: Trajectory, passes: Passes, are_own: bool) -> list[Array] | None:
    """Return how much each pass of each step counts in the candidate, in units of what it counts in the reference.

    None if that doesn't explain the candidate's gradients, or if all passes of each step count the same.
    """
    like = next(treatments(trajectory.sums, trajectory.expected, Treatment(), unit=trajectory.unit), None)
    if like is None or (like.clip and not are_own):
        return None
    totals = trajectory.sums if are_own else trajectory.gradients
    weights = []
    for step, total in zip(passes, totals, strict=True):
        estimate = _weights(step, total, trajectory.unit)
        if estimate is None:
            return None
        weights.append(1.0 / estimate if are_own else estimate / like.factor)
    if all(np.ptp(step) <= SAME * np.max(np.abs(step)) for step in weights):
        return None
    # what the candidate's optimizer got must be the sum of its own passes, treated as in the reference
    sums = [sum_of(step) for step in passes]
    return weights if not are_own or like.explains(sums, trajectory.gradients, trajectory.unit) else None


def _weights(passes: Sequence[Gradients], total: Gradients, unit: float) -> Array | None:
    """Return the factors with which passes add up to a total; None if there are none, or one is zero."""
    names = sorted(total)
    columns = [np.concatenate([np.ravel(step.get(name, np.zeros_like(total[name]))) for name in names])
               for step in passes]  # fmt: skip
    if not columns or columns[0].size < LEAST_EQUATIONS * len(columns):
        return None
    target = np.concatenate([total[name].ravel() for name in names])
    if not np.all(np.isfinite(target)):
        return None
    weights = np.asarray(np.linalg.lstsq(np.stack(columns, axis=1), target)[0])
    if np.any(np.abs(weights) <= SAME):
        return None
    parts = [{name: gradient * weight for name, gradient in step.items()} for step, weight in
             zip(passes, weights, strict=True)]  # fmt: skip
    return weights if similar(sum_of(parts), total, unit) else None


def _cause_of_stale_gradients(trajectory: Trajectory) -> Cause | None:
    """Return the cause if in some steps, and only there, the gradients of the step before are left."""
    like = next(treatments(trajectory.sums, trajectory.expected, Treatment(), unit=trajectory.unit), None)
    if like is None or not like.zeroed:
        return None
    stale: list[int] = []
    before: Gradients = {}
    for step, (total, result) in enumerate(zip(trajectory.sums, trajectory.gradients, strict=True), 1):
        if similar(like.result(sum_of([total, before])), result, trajectory.unit) and step > 1:
            stale.append(step)
        elif not similar(like.result(total), result, trajectory.unit):
            return None
        before = result
    if not stale:
        return None
    listed = ", ".join(map(str, stale[:6])) + (", ..." if len(stale) > 6 else "")
    return Cause(
        KIND,
        f"{HERE}, the gradients of the step before are still there in step {listed}, and are added to the step's own",
        "set the gradients to zero before each step",
        attribute="zero_grad",
        reference_value=True,
        candidate_value=False,
    )


def _cause_of_kinds(reference: Accumulation, candidate: Accumulation, count: int) -> Cause:
    clip = ", clipped once" if CLIPPED in (reference.kind, candidate.kind) else ""
    words = {
        SUM: f"the optimizer gets the sum of the gradients of {count} micro-batches{clip}",
        LAST: f"the optimizer gets the gradients of the last of {count} micro-batches alone: "
        "they are set to zero before it",
        CLIPPED: f"the gradients are clipped after each of {count} micro-batches",
    }
    fixes = {
        SUM: {
            LAST: "set the gradients to zero once for each step, before its first micro-batch",
            CLIPPED: "clip once for each step, after its last micro-batch",
        }.get(candidate.kind, ""),
        LAST: "set the gradients to zero before the last micro-batch",
        CLIPPED: "clip the gradients after each micro-batch",
    }
    return Cause(
        KIND,
        f"{HERE}, {words[candidate.kind]}; {THERE}, {words[reference.kind]}",
        fixes[reference.kind],
        attribute="accumulation",
        reference_value=reference.kind,
        candidate_value=candidate.kind,
    )


def _cause_of_weights(weights: Sequence[Array], count: int) -> Cause:
    """Return the cause for micro-batches of other weights: a mean of means has other ones than the mean of all."""
    number, first = next((n, step) for n, step in enumerate(weights, 1) if np.ptp(step) > SAME * np.max(np.abs(step)))
    listed = ", ".join(f"{weight:.4g}" for weight in first[:6]) + (", ..." if len(first) > 6 else "")
    counted = f"in step {number}, the {count} micro-batches count {listed} times as much {HERE} as {THERE}"

    def add_up(steps: Sequence[Array]) -> bool:
        return all(abs(step.sum() - len(step)) <= SAME * len(step) for step in steps)

    means = "the mean of the means of the micro-batches"
    whole = "the mean over all elements of the batch"
    if add_up([1.0 / step for step in weights]):
        summary, kinds = f"the loss is {means} {HERE}, {whole} {THERE}", ("mean of all", "mean of means")
        fix = "divide the sum over each micro-batch by the number of elements of the whole batch"
    elif add_up(weights):
        summary, kinds = f"the loss is {whole} {HERE}, {means} {THERE}", ("mean of means", "mean of all")
        fix = "divide the mean of each micro-batch by the number of micro-batches"
    else:
        summary, kinds, fix = "micro-batches have other weights", ("", ""), "weigh them as the reference does"
    return Cause(
        KIND, f"{summary}: {counted}", fix, attribute="accumulation", reference_value=kinds[0], candidate_value=kinds[1]
    )
