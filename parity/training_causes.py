"""What the first step that differs looks like: a multiple of the right one, weight decay, another momentum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .judge import size
from .results import Comparison
from .sides.records import Array
from .sides.training import LOSS, Training

SAME = 1e-6  # share of a difference that may be left unexplained


def causes(truth: Training, run: Training, failures: Sequence[Comparison]) -> list[str]:
    """What is seen in the first step that differs, each with the tensors where it is seen.

    Args:
        truth: torch, in float64.
        run: the port, in the same dtype or the working dtype.
        failures: the comparisons that fail.
    """
    step = min((c.call for c in failures), default=0)
    seen: dict[str, list[str]] = {}
    for name in dict.fromkeys(c.tensor for c in failures if c.call == step):
        sight = _of_loss(truth, run, step) if name == LOSS else _of_tensor(truth, run, step, name)
        if sight:
            seen.setdefault(sight, []).append(name)
    lines = [f"{', '.join(names[:3])}{_more(names)}: {sight}" for sight, names in seen.items()]
    if step > 1 and lines:
        lines.append(
            f"up to step {step - 1} both agree: look at what an optimizer keeps from step to step (moments, averages), "
            "at schedules, and at buffers"
        )
    return lines


def _more(names: list[str]) -> str:
    return f" and {len(names) - 3} more" if len(names) > 3 else ""


def _of_loss(truth: Training, run: Training, step: int) -> str:
    factor = _multiple(run.steps[step - 1][LOSS], truth.steps[step - 1][LOSS])
    if factor is None or not _tells(factor):
        return ""
    return f"{_number(factor)} times that of torch: loss scale, or a sum for a mean"


def _of_tensor(truth: Training, run: Training, step: int, name: str) -> str:
    def moved(training: Training, number: int) -> Array:
        before = training.start if number == 1 else training.steps[number - 2]
        return np.asarray(training.steps[number - 1][name] - before[name], np.float64)

    start = (truth.start if step == 1 else truth.steps[step - 2])[name].astype(np.float64)
    there, here = moved(truth, step), moved(run, step)
    difference = here - there
    decay, factor = _multiple(difference, start), _multiple(here, there)
    if size(there) == 0.0:
        if decay is not None:
            return (
                f"frozen in torch; here it shrinks, by {_number(-decay)} of itself: weight decay in an optimizer "
                "that was built before it was frozen"
            )
        return "moves here, and not in torch: frozen there?"
    if size(here) == 0.0:
        return "moves in torch, and not here: frozen, or not given to the optimizer?"
    if factor is not None:
        return (
            f"moves {_number(factor)} times as far as in torch: loss scale, accumulation, clipping or learning rate; "
            "of a moving statistic, the momentum"
        )
    momentum = _multiple(difference, moved(truth, step - 1)) if step > 1 else None
    if momentum is not None:
        return f"moves further by {_number(momentum)} of the step before: momentum"
    return f"differs by {_number(decay)} of itself: weight decay on one side only" if decay is not None else ""


def _multiple(array: Array, of: Array) -> float | None:
    """The number that makes `array` of `of`, if there is one."""
    square = float((of * of).sum())
    if square == 0.0 or array.size == 0:
        return None
    factor = float((array * of).sum()) / square
    if array.size == 1 and array.ndim:
        return None  # any number is a multiple of any other
    return factor if factor and size(array - factor * of) <= SAME * size(array) else None


def _tells(factor: float) -> bool:
    """Whether it looks like one that somebody has put there: a whole number or the inverse of one."""
    return any(abs(x - round(x)) < SAME * abs(x) and abs(x) > 1.5 for x in (factor, 1 / factor))


def _number(value: float) -> str:
    return f"{value:.4g}"
