"""Causes of trainings that differ, proved by replaying the candidate's updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ...causes.budget import Budget
from ...results.cause import Cause
from ...results.comparison import FAIL, Comparison
from ...sides.records import Array
from ...verdicts.deviations import size
from .quantities import LOSS, Quantities, TrainingRecord
from .torch_updates import TorchUpdate
from .training_config import TrainingConfig
from .updates.accumulation import cause_of_accumulation
from .updates.rules import Rule
from .updates.search import Search
from .updates.torch_rules import rule_of
from .updates.trajectory import SIMILAR, Trajectory, first_difference
from .updates.treatment import NORM, Treatment, treatments
from .updates.words import causes_of_findings, causes_of_treatments

WORK = 1e10
"""The elements that a search for causes of a training may replay: about ten seconds on an idle core."""


@dataclass
class Proofs:
    """What is known of the causes.

    Attributes:
        causes: those that are proved.
        network: says that the networks differ; empty if that isn't known.
        explanations: what is known about that.
        tensors: names of the buffers that the causes explain.
    """

    causes: list[Cause] = field(default_factory=list)
    network: str = ""
    explanations: list[str] = field(default_factory=list)
    tensors: set[str] = field(default_factory=set)


def budget_of_training() -> Budget:
    """Return how much the search for the causes of a training may compute."""
    return Budget(work=WORK, advice="")


def prove(trajectory: Trajectory, budget: Budget) -> Proofs:
    """Return why a candidate's updates differ from the reference's.

    The candidate's gradients are compared with those of the reference at the same parameters: what was done to them
    between backward pass and optimizer is found first. Then the updates are replayed from the candidate's gradients.
    """
    trajectory = trajectory.finite()
    if not trajectory.steps:
        return Proofs()
    causes: list[Cause] = []
    differing = first_difference(trajectory.gradients, trajectory.expected, trajectory.unit)
    if differing is not None:
        reference, candidate = _treatments(trajectory)
        if reference is not None and candidate is not None:
            causes += causes_of_treatments(reference, candidate, trajectory)
        elif cause := cause_of_accumulation(trajectory):
            causes.append(cause)
        else:
            return Proofs(network="" if reference is None else difference_in_words(trajectory, differing))
    if trajectory.differing():
        findings = Search(trajectory, budget).findings()
        if not findings:
            return Proofs()
        causes += causes_of_findings(findings, trajectory)
        error = max(finding.error for finding in findings)
    else:
        error = max((trajectory.error(name, rules) for name, rules in trajectory.plan.items()), default=0.0)
    steps, together = trajectory.steps, len(causes)
    return Proofs([replace(cause, error=error, steps=steps, together=together) for cause in causes])


def difference_in_words(trajectory: Trajectory, step: int) -> str:
    """Say by how much the gradients differ in a step, from 1, at the same parameters."""
    expected, gradients = trajectory.expected[step - 1], trajectory.gradients[step - 1]
    names = sorted(expected.keys() & gradients.keys())
    reference, candidate = (np.concatenate([of[name].ravel() for name in names]) for of in (expected, gradients))
    square = float(reference @ reference)
    factor = float(reference @ candidate) / square if square else 0.0
    where = f"in step {step}, at the same parameters"
    if factor and size(candidate - factor * reference) <= SIMILAR * size(candidate):
        return f"the gradients are {factor:.7g} times those of the reference {where}"
    lengths = [float(np.linalg.norm(array)) for array in (candidate, reference)]
    return (
        f"the gradients differ already {where}: their norm is {lengths[0]:.4g} in the candidate, {lengths[1]:.4g} in "
        "the reference, and they aren't multiples of each other"
    )


def _treatments(trajectory: Trajectory) -> tuple[Treatment | None, Treatment | None]:
    """Return how the reference and the candidate treat gradients, as alike as possible; None for what isn't known."""
    factor, unit = 1.0 / (trajectory.scale * trajectory.batches), trajectory.unit
    reference = next(treatments(trajectory.sums, trajectory.expected, Treatment(), factor, unit), None)
    if reference is None:
        return None, None
    return reference, next(treatments(trajectory.sums, trajectory.gradients, reference, factor, unit), None)


def trajectory_of(
    run: TrainingRecord, updates: Sequence[TorchUpdate], comparisons: Sequence[Comparison], unit: float, batch_size: int
) -> Trajectory | None:
    """Return the trajectory of a run and of torch's updates along the same way; None if too little is recorded."""
    if run.gradients is None or len(run.gradients) != len(run.steps) or len(updates) != len(run.steps):
        return None
    if any(update.repeated or None in update.rules.values() for update in updates):
        return None
    parameters = [_of_kind(step, "parameter") for step in (run.start, *run.steps)]
    names = parameters[0].keys()
    plan: dict[str, Sequence[Rule]] = {}
    for name in names:
        rules = [rule for update in updates if (rule := update.rules.get(name)) is not None]
        if rules and len(rules) != len(updates):
            return None
        plan[name] = rules
    loss = run.steps[0].get(LOSS)
    roots = updates[0].roots
    scale = float(np.mean(roots)) / float(loss) if roots and loss is not None and float(loss) else 1.0
    return Trajectory(
        parameters,
        run.gradients,
        [update.passes for update in updates],
        [update.gradients for update in updates],
        {name: rules for name, rules in plan.items() if rules},
        bars_of(comparisons),
        unit,
        max(1, len(roots)),
        batch_size,
        float(f"{scale:.6g}"),
        run.passes or (),
    )


def trajectory_of_config(
    run: TrainingRecord, truth: TrainingRecord, config: TrainingConfig, comparisons: Sequence[Comparison], unit: float
) -> Trajectory | None:
    """Return the trajectory of a network trained by a configuration; None if too little is recorded.

    Torch doesn't update a parameter that no gradient arrives at.

    Its gradients were compared with torch's before its parameters were: where they are wrong, there is no trajectory.
    """
    first = min((c.call for c in comparisons if c.status == FAIL), default=0)
    if any(c.status == FAIL and c.call == first and c.kind in ("loss", "gradient") for c in comparisons):
        return None
    if any(run.overflowed):
        return None
    sums = [_of_kind(step, "gradient") for step in run.steps]
    gradients = [_of_kind(step, "clipped gradient") for step in run.steps] if config.clip_norm is not None else sums
    optimizer = config.make_optimizer(torch.optim, [torch.nn.Parameter(torch.zeros(1))])
    rule = rule_of(optimizer, optimizer.param_groups[0])
    assert rule is not None
    treatment = Treatment() if config.clip_norm is None else Treatment(clip=NORM, limit=config.clip_norm)
    return Trajectory(
        [_of_kind(step, "parameter") for step in (run.start, *run.steps)],
        gradients,
        [[step] for step in sums],
        [treatment.result(step) for step in sums],
        {name: [rule] * len(run.steps) for name in sums[0] if _moves(truth, name)},
        bars_of(comparisons),
        unit,
    )


def _moves(training: TrainingRecord, name: str) -> bool:
    return any(size(_of_kind(step, "gradient").get(name)) for step in training.steps)


def bars_of(comparisons: Sequence[Comparison], kind: str = "parameter") -> Callable[[str, int], float]:
    """Return the function that gives the bar of a tensor of this kind after a step, from 0."""
    bars = {(c.tensor, c.call - 1): c.bar for c in comparisons if c.kind == kind}
    return lambda name, step: bars.get((name, step), 0.0)


def _of_kind(step: Quantities, kind: str) -> dict[str, Array]:
    return {q.name: np.asarray(array, np.float64) for q, array in step.items() if q.kind == kind}
