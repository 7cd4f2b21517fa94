"""Probable causes of the first step that differs: a multiple of the right one, weight decay, another momentum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...results.comparison import Comparison
from ...results.training_result import KINDS
from ...sides.records import Array
from ...verdicts.deviations import size
from .quantities import LOSS, OVERFLOW, Quantity, TrainingRecord

STATE_KINDS = ("parameter", "buffer")
MAX_UNEXPLAINED = 1e-6  # share of a difference that may remain unexplained


def explanations(truth: TrainingRecord, run: TrainingRecord, failures: Sequence[Comparison]) -> list[str]:
    """Return the probable causes of the first step that differs, each with the tensors that show it.

    Args:
        truth: torch's training in float64.
        run: the side's training, in float64 or the working dtype.
        failures: the comparisons that fail.
    """
    step = min((c.call for c in failures), default=0)
    names_by_cause: dict[str, list[str]] = {}
    for quantity in _primary([Quantity(c.kind, c.tensor) for c in failures if c.call == step]):
        is_state = quantity.kind in STATE_KINDS
        cause = (
            _cause_in_state(truth, run, step, quantity) if is_state else _cause_in_computed(truth, run, step, quantity)
        )
        if cause:
            names_by_cause.setdefault(cause, []).append(
                quantity.name if is_state or quantity in (LOSS, OVERFLOW) else " of ".join(quantity)
            )
    lines = [f"{', '.join(names[:3])}{_more(names)}: {cause}" for cause, names in names_by_cause.items()]
    if step > 1 and lines:
        lines.append(
            f"up to step {step - 1} both agree: look at what an optimizer keeps from step to step (moments, averages), "
            "at schedules, and at buffers"
        )
    return lines


def _more(names: list[str]) -> str:
    return f" and {len(names) - 3} more" if len(names) > 3 else ""


def _primary(failures: Sequence[Quantity]) -> list[Quantity]:
    """Return the failures of one step that aren't mere consequences of its others."""
    first = min((KINDS.index(quantity.kind) for quantity in failures), default=0)
    consequences = KINDS[first] not in (*STATE_KINDS, LOSS.kind)
    return [q for q in dict.fromkeys(failures) if not consequences or q.kind == KINDS[first]]


def _cause_in_computed(truth: TrainingRecord, run: TrainingRecord, step: int, quantity: Quantity) -> str:
    if quantity == OVERFLOW:
        done = "skipped" if run.steps[step - 1][quantity] else "made"
        return f"the update was {done} in the candidate, and not in the reference"
    factor = _factor(run.steps[step - 1][quantity], truth.steps[step - 1][quantity])
    if factor is None or abs(factor - 1) < MAX_UNEXPLAINED or (quantity.kind == LOSS.kind and not _is_simple(factor)):
        return ""
    return f"{_number(factor)} times that of torch: loss scale, or a sum instead of a mean"


def _cause_in_state(truth: TrainingRecord, run: TrainingRecord, step: int, quantity: Quantity) -> str:
    def change_in(training: TrainingRecord, number: int) -> Array:
        before = training.start if number == 1 else training.steps[number - 2]
        return np.asarray(training.steps[number - 1][quantity] - before[quantity], np.float64)

    start = (truth.start if step == 1 else truth.steps[step - 2])[quantity].astype(np.float64)
    reference, candidate = change_in(truth, step), change_in(run, step)
    difference = candidate - reference
    decay, factor = _multiple(difference, start), _factor(candidate, reference)
    if quantity.kind == "buffer":
        return _cause_in_buffer(size(candidate), size(reference), factor)
    if size(reference) == 0.0:
        if decay is not None:
            return (
                f"frozen in the reference; in the candidate it shrinks, by {_number(-decay)} of itself: weight decay "
                "in an optimizer that was built before it was frozen"
            )
        return "moves in the candidate, and not in the reference: frozen in the reference?"
    if size(candidate) == 0.0:
        return "moves in the reference, and not in the candidate: frozen, or not given to the optimizer?"
    if factor is not None:
        moves = f"moves {_number(factor)} times as far as in torch"
        if 1 < factor < 1 + 1e-4:
            return f"{moves}: clipping, where torch's clip_grad_norm_ adds 1e-6 to the norm, or learning rate"
        return f"{moves}: loss scale, accumulation, clipping, learning rate, or another form of momentum"
    momentum = _multiple(difference, change_in(truth, step - 1)) if step > 1 else None
    if momentum is not None:
        return f"moves further by {_number(momentum)} of the step before: momentum"
    if decay is None:
        return ""
    return f"differs by {_number(decay)} of itself: weight decay on one side only, or decoupled on one side only"


def _cause_in_buffer(candidate: float, reference: float, factor: float | None) -> str:
    """Return the cause for a buffer that changes by these magnitudes."""
    if reference == 0.0:
        return "moves in the candidate, and not in the reference: the network is in eval mode in the reference?"
    if candidate == 0.0:
        return "moves in the reference, and not in the candidate: the network is in eval mode in the candidate?"
    return "" if factor is None else f"moves {_number(factor)} times as far as in torch: the momentum of a statistic"


def _factor(candidate: Array, reference: Array) -> float | None:
    """The number that `reference` is multiplied by in `candidate`, if their difference is also a multiple of it."""
    candidate, reference = np.asarray(candidate, np.float64), np.asarray(reference, np.float64)
    share = _multiple(candidate - reference, reference)
    return None if share in (None, -1.0) else 1 + share


def _multiple(array: Array, of: Array) -> float | None:
    """The number by which `of` must be multiplied to give `array`, if there is one."""
    array, of = np.asarray(array, np.float64), np.asarray(of, np.float64)
    square = float((of * of).sum())
    if square == 0.0 or array.size == 0:
        return None
    factor = float((array * of).sum()) / square
    if array.size == 1 and array.ndim:
        return None  # any number is a multiple of any other
    is_multiple = np.isfinite(factor) and factor != 0 and size(array - factor * of) <= MAX_UNEXPLAINED * size(array)
    return factor if is_multiple else None


def _is_simple(factor: float) -> bool:
    """Whether a factor looks deliberate: a whole number or the inverse of one."""
    return any(abs(x - round(x)) < MAX_UNEXPLAINED * abs(x) and abs(x) > 1.5 for x in (factor, 1 / factor))


def _number(value: float) -> str:
    beside = value - 1  # for a number close to 1, its distance from 1
    return f"{value:.4g}" if abs(beside) > 1e-4 else f"1 {'-' if beside < 0 else '+'} {abs(beside):.2g}"
