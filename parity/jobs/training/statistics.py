"""The momentum of moving statistics, found out from how far they move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ...results.cause import Cause
from ...results.comparison import Comparison
from ...sides.records import Array
from ...verdicts.deviations import size
from .proofs import bars_of
from .quantities import Quantity, TrainingRecord
from .updates.numbers import plain_numbers

STATISTICS = ("running_mean", "running_var")


def causes_of_statistics(
    module: torch.nn.Module,
    led: TrainingRecord,
    run: TrainingRecord,
    comparisons: Sequence[Comparison],
    weighs_old: bool,
) -> dict[tuple[str, ...], Cause]:
    """Return the causes for statistics that move a constant times as far as the reference's, by their names.

    In torch, a statistic becomes `(1 - momentum) * old + momentum * new`. From the same old one and with the same new
    one, its change is proportional to the momentum.

    Args:
        module: the reference.
        led: the reference's training, led along the candidate's: each step starts from the candidate's statistics.
        run: the candidate's training.
        comparisons: of the candidate with the reference, with the bars.
        weighs_old: whether the candidate's layers call the weight of the old statistic `momentum`, as MindSpore's do,
            and not that of the new one, as torch's do.
    """
    bars, result = bars_of(comparisons, "buffer"), {}
    for path, layer in module.named_modules():
        momentum = getattr(layer, "momentum", None)
        names = tuple(f"{path}.{name}".lstrip(".") for name in STATISTICS if getattr(layer, name, None) is not None)
        if not names or not momentum or any(Quantity("buffer", name) not in run.start for name in names):
            continue
        changes = {name: _changes(name, led, run) for name in names}
        limits = {name: [bars(name, step) for step in range(len(run.steps))] for name in names}
        if _agree(changes, limits, 1.0):
            continue
        reference, candidate = (
            np.concatenate([pair[side].ravel() for of in changes.values() for pair in of]) for side in (0, 1)
        )
        square = float(reference @ reference)
        estimate = float(reference @ candidate) / square * momentum if square else 0.0
        candidate_momentum = next(
            (number for number in plain_numbers(estimate) if _agree(changes, limits, number / momentum)), None
        )
        if candidate_momentum:
            result[names] = _cause(path, momentum, candidate_momentum, weighs_old, len(run.steps))
    return result


def _changes(name: str, led: TrainingRecord, run: TrainingRecord) -> list[tuple[Array, Array]]:
    """The changes of a statistic in the reference and in the candidate, from the candidate's, in each step."""
    key = Quantity("buffer", name)
    before = [step[key] for step in (run.start, *run.steps[:-1])]
    pairs = zip(before, led.steps, run.steps, strict=True)
    return [(np.asarray(reference[key] - old), np.asarray(candidate[key] - old)) for old, reference, candidate in pairs]


def _agree(changes: dict[str, list[tuple[Array, Array]]], limits: dict[str, list[float]], factor: float) -> bool:
    return all(
        size(candidate - factor * reference) <= limit
        for name, of in changes.items()
        for (reference, candidate), limit in zip(of, limits[name], strict=True)
    )


def _cause(path: str, reference: float, candidate: float, weighs_old: bool, steps: int) -> Cause:
    """Return the cause; both momenta are the weights of the new statistic, as torch writes them."""
    if weighs_old:
        needed, actual = (float(f"{1 - number:.10g}") for number in (reference, candidate))
        summary = (
            f"{path}: momentum is {actual:g} in the candidate, where it is the weight of the old statistic, and "
            f"{reference:g} in the reference, where it is the weight of the new one"
        )
    else:
        needed, actual = reference, candidate
        summary = f"{path}: momentum is {actual:g} in the candidate, {reference:g} in the reference"
        if abs(actual + reference - 1) < 1e-9 and actual != reference:
            summary += ": in torch it is the weight of the new statistic, not of the old one"
    return Cause(
        "attribute",
        summary,
        f"write momentum={needed:g}",
        attribute="momentum", reference_value=reference, candidate_value=actual, steps=steps,
    )  # fmt: skip
