"""Findings on updates, in words: as `Cause`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....results.cause import Cause
from ....verdicts.deviations import size
from .findings import Finding
from .rules import ADAM, ADAMAX, CORRECTED, IN_MAXIMUM, IN_ROOT, UNCORRECTED, Rule
from .trajectory import Trajectory
from .treatment import EACH, NONE, NORM, VALUE, Treatment

KIND = "optimizer"
MAX_NAMES = 3
HERE, THERE = "in the candidate", "in the reference"
WORDS = {
    "lr": "the learning rate lr",
    "weight_decay": "weight decay",
    "beta1": "beta1 (betas[0])",
    "beta2": "beta2 (betas[1])",
    "start": "the sum of squares at first",
}
PLACE_WORDS = {
    CORRECTED: "to the corrected root",
    UNCORRECTED: "to the root before the bias correction",
    IN_ROOT: "inside the root",
}
ATTRIBUTES = {"beta1": "betas[0]", "beta2": "betas[1]"}
CLIP_WORDS = {
    NONE: "gradients aren't clipped",
    NORM: "the norm of all gradients together is clipped",
    VALUE: "each element of the gradients is clipped by value",
    EACH: "the norm of each gradient is clipped by itself",
}
CLIP_FIX = {
    NONE: "don't clip the gradients",
    NORM: "clip the norm of all gradients together",
    VALUE: "clip the elements of the gradients by value",
    EACH: "clip the norm of each gradient by itself",
}


def causes_of_findings(findings: Sequence[Finding], trajectory: Trajectory) -> list[Cause]:
    """Return the causes that findings on rules name."""
    result = []
    for finding in findings:
        where = _where(finding, trajectory)
        for cause in _of_rules(finding, trajectory):
            summary = f"{where}{cause.summary}"
            result.append(_cause(summary, cause.fix, cause.attribute, cause.reference_value, cause.candidate_value))
    return result


def causes_of_treatments(reference: Treatment, candidate: Treatment, trajectory: Trajectory) -> Iterator[Cause]:
    """Yield the causes that two treatments of gradients differ in."""
    if reference.zeroed and not candidate.zeroed:
        yield _cause(f"the gradients of the step before are added to those of a step: they aren't set to zero {HERE}",
                     "set the gradients to zero before each step", "zero_grad", True, False)  # fmt: skip
    if candidate.zeroed and not reference.zeroed:
        yield _cause(f"the gradients are set to zero before each step {HERE}, and accumulated {THERE}",
                     "keep the gradients of the step before", "zero_grad", False, True)  # fmt: skip
    if reference.factor != candidate.factor:
        yield _of_factor(candidate.factor / reference.factor, trajectory)
    if reference.clip != candidate.clip:
        limit = f" to {reference.limit:g}" if reference.clip else ""
        yield _cause(
            f"{CLIP_WORDS[candidate.clip]} {HERE}; {THERE}, {CLIP_WORDS[reference.clip]}{limit}",
            CLIP_FIX[reference.clip] + limit,
            "clip",
            reference.clip or "none",
            candidate.clip or "none",
        )
    elif reference.limit != candidate.limit:
        yield _cause(
            f"gradients are clipped to {candidate.limit:g} {HERE}, to {reference.limit:g} {THERE}",
            f"clip the gradients to {reference.limit:g}",
            "limit",
            reference.limit,
            candidate.limit,
        )
    if reference.clip_first != candidate.clip_first:
        order = ("before", "after") if candidate.clip_first else ("after", "before")
        yield _cause(
            f"gradients are clipped {order[0]} the loss scale is divided out {HERE}, {order[1]} it {THERE}",
            f"clip the gradients {order[1]} the loss scale is divided out",
            "clip order",
            order[1],
            order[0],
        )


def _of_factor(factor: float, trajectory: Trajectory) -> Cause:
    """Return the cause for gradients that are multiplied by a number, in terms of what may be forgotten."""
    explanations = {
        "loss scale": (trajectory.scale, f"the loss scale of {trajectory.scale:g} isn't divided out of the gradients",
                       f"divide the gradients by {trajectory.scale:g}"),
        "accumulation": (float(trajectory.batches), f"the gradients of {trajectory.batches} batches are summed, where "
                         "the reference takes their mean (accumulation)",
                         f"divide the gradients by {trajectory.batches}"),
        "reduction": (float(trajectory.batch_size), f"the loss is the sum over the {trajectory.batch_size} examples of "
                      "a batch, where the reference takes their mean", "take the mean"),
    }  # fmt: skip
    for name, (number, summary, fix) in explanations.items():
        if number not in (0.0, 1.0) and abs(factor / number - 1) < 1e-6:
            return _cause(f"{summary}: gradients are {factor:g} times those of the reference", fix, name, 1.0, factor)
    fix = f"divide the gradients by {factor:.7g}"
    summary = f"gradients are {factor:.7g} times those of the reference: a loss scale, or a sum instead of a mean"
    return _cause(summary, fix, "factor", 1.0, factor)


def _of_rules(finding: Finding, trajectory: Trajectory) -> Iterator[Cause]:
    """Yield what a finding says, without where it holds."""
    first = finding.names[0]
    reference, candidate = trajectory.plan.get(first, ()), finding.plan[first]
    if not candidate:
        yield _cause(
            f"not updated {HERE} (frozen, or not given to the optimizer), updated {THERE}",
            "train it, and give it to the optimizer", "frozen", False, True,
        )  # fmt: skip
        return
    if not reference:
        has_gradient = any(size(step[name]) for step in trajectory.gradients for name in finding.names)
        how = f"trained {HERE}" if has_gradient else f"frozen {HERE} too, but decayed by the optimizer"
        yield _cause(f"{how}, frozen {THERE}", "freeze it before the optimizer is made", "frozen", True, False)
        return
    if finding.rates:
        yield _of_rates([rule.lr for rule in reference], finding.rates)
    for respect, value in finding.changes:
        yield _of_change(respect.field, value, reference, candidate)


def _of_rates(reference: Sequence[float], candidate: Sequence[float]) -> Cause:
    """Return the cause for other learning rates, in terms of schedules."""
    steps = range(1, len(reference))
    name = "lr schedule"
    rates = f"learning rates are {_list(candidate)} {HERE}, {_list(reference)} {THERE}"
    if all(_same(candidate[step], reference[step - 1]) for step in steps):
        return _cause(f"the schedule of the learning rate is late by one step: {rates}",
                      "step the schedule one update earlier", name)  # fmt: skip
    if all(_same(candidate[step - 1], reference[step]) for step in steps):
        return _cause(f"the schedule of the learning rate is early by one step: {rates}",
                      "step the schedule one update later", name)  # fmt: skip
    if all(_same(rate, candidate[0]) for rate in candidate):
        return _cause(f"the learning rate has no schedule {HERE}: {rates}", "use the reference's schedule", name)
    return _cause(f"the schedule of the learning rate differs: {rates}", "use the reference's schedule", name)


def _of_change(field: str, value: Any, reference: Sequence[Rule], candidate: Sequence[Rule]) -> Cause:
    before, after = reference[0], candidate[0]
    if field == "kind":
        candidate_name, reference_name = _class(after), _class(before)
        return _cause(
            f"the optimizer is {candidate_name} {HERE}, {reference_name} {THERE}",
            f"use {reference_name}",
            "optimizer",
            reference_name,
            candidate_name,
        )
    if field == "decoupled":
        form = {True: "decoupled from the gradient", False: "coupled (added to the gradient)"}
        candidate_name, reference_name = _class(after), _class(before)
        return _cause(f"weight decay is {form[value]} {HERE}, {form[not value]} {THERE}", f"use {reference_name}",
                      "optimizer", reference_name, candidate_name)  # fmt: skip
    if field == "bias_correction":
        has = {True: "has bias correction", False: "has no bias correction"}
        return _cause(f"{_class(after)} {has[value]} {HERE}, and {has[not value]} {THERE}",
                      "divide the means by 1 - beta**t" if not value else "leave out the bias correction",
                      "bias correction", not value, value)  # fmt: skip
    if field == "eps_place":
        candidate_name, reference_name = _place(after), _place(before)
        return _cause(f"eps is added {candidate_name} {HERE}, {reference_name} {THERE}", f"add eps {reference_name}",
                      "eps place", before.eps_place, value)  # fmt: skip
    if isinstance(value, bool):
        state = {True: "on", False: "off"}
        return _cause(f"{field} is {state[value]} {HERE}, {state[not value]} {THERE}", f"set {field}={not value}",
                      field, not value, value)  # fmt: skip
    there_number, here_number = (float(f"{getattr(rule, field):.12g}") for rule in (before, after))
    word, name = WORDS.get(field, field), ATTRIBUTES.get(field, field)
    if field == "lr" and len({rule.lr for rule in reference}) > 1:
        return _cause(f"{word} is {value:.7g} times that of the reference in every step", "divide it by that", name)
    other_end = ", counted from the other end" if _same(here_number, 1 - there_number) and here_number != 0.5 else ""
    return _cause(
        f"{word} is {here_number:.7g} {HERE}, {there_number:.7g} {THERE}{other_end}",
        f"set {name} to {there_number:.7g}", name, there_number, here_number,
    )  # fmt: skip


def _class(rule: Rule) -> str:
    return "AdamW" if rule.kind == ADAM and rule.decoupled else rule.kind


def _place(rule: Rule) -> str:
    if rule.kind == ADAMAX:
        return "inside the maximum" if rule.eps_place == IN_MAXIMUM else "to the maximum"
    return PLACE_WORDS[rule.eps_place]


def _where(finding: Finding, trajectory: Trajectory) -> str:
    """Say which parameters a finding is about, unless it holds for all."""
    plan, names = finding.plan, finding.names
    one_sided = any(not plan[name] or not trajectory.plan.get(name) for name in names)
    groups = {tuple(rules) for rules in trajectory.plan.values()}
    if not one_sided and (set(names) == set(trajectory.plan) or (finding.holds_for_all and len(groups) == 1)):
        return ""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more}: "


def _list(numbers: Sequence[float]) -> str:
    shown = ", ".join(f"{number:.4g}" for number in numbers[:6])
    return f"{shown}, ..." if len(numbers) > 6 else shown


def _same(rate: float, other: float) -> bool:
    return abs(rate - other) <= 1e-6 * max(abs(rate), abs(other))


def _cause(summary: str, fix: str, attribute: str, reference: Any = None, candidate: Any = None) -> Cause:
    return Cause(KIND, summary, fix, attribute=attribute, reference_value=reference, candidate_value=candidate)
