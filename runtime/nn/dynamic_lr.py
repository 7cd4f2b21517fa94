"""Learning rates that change with the epoch, as lists of one rate per step for optimizers.

The epoch of step i is `i // step_per_epoch`. The module `learning_rate_schedule` has Cells that compute a rate from the
step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .. import checks
from .learning_rate_schedule import check_bounds


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """Return `learning_rates[i]` for the steps before `milestone[i]` and from `milestone[i - 1]` on.

    Args:
        milestone: list or tuple of non-decreasing ints > 0.
        learning_rates: list or tuple of rates, of the same length.

    Raises:
        TypeError: an argument or an element has a wrong type.
        ValueError: the lengths differ, or the milestones decrease or aren't above 0.
    """
    of = "piecewise_constant_lr"
    checks.of_type(milestone, "milestone", (tuple, list), of=of)
    checks.of_type(learning_rates, "learning_rates", (tuple, list), of=of)
    if len(milestone) != len(learning_rates):
        raise ValueError(
            f"For '{of}', 'milestone' and 'learning_rates' must have the same length, but got {len(milestone)} and "
            f"{len(learning_rates)}"
        )
    rates: list[float] = []
    for i, (end, rate) in enumerate(zip(milestone, learning_rates, strict=True)):
        checks.positive_int(end, f"milestone[{i}]", of=of)
        checks.of_type(rate, f"learning_rates[{i}]", (int, float), of=of)
        if end < len(rates):
            raise ValueError(f"For '{of}', 'milestone' must not decrease, but got {list(milestone)}")
        rates += [rate] * (end - len(rates))
    return rates


def exponential_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return `learning_rate * decay_rate ** (epoch / decay_epoch)`; with `is_stair` the exponent is rounded down.

    Args:
        learning_rate: the initial rate, > 0.
        decay_rate: the factor that each decay multiplies the rate by, > 0.
        total_step: the number of steps: the length of the list.
        step_per_epoch: steps in an epoch.
        decay_epoch: epochs per decay.
        is_stair: whether the rate decays in steps, after every `decay_epoch` epochs.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number isn't above 0.
    """
    _check_decay(learning_rate, decay_rate, is_stair, of="exponential_decay_lr")

    def rate(epoch: int) -> float:
        return learning_rate * decay_rate ** (epoch // decay_epoch if is_stair else epoch / decay_epoch)

    return _list_rates(rate, total_step, step_per_epoch, decay_epoch, of="exponential_decay_lr")


def natural_exp_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return `learning_rate * exp(-decay_rate * epoch)`; `is_stair` rounds epoch down to multiples of `decay_epoch`.

    Arguments and errors are those of `exponential_decay_lr`.
    """
    _check_decay(learning_rate, decay_rate, is_stair, of="natural_exp_decay_lr")

    def rate(epoch: int) -> float:
        return learning_rate * math.exp(-decay_rate * (epoch // decay_epoch * decay_epoch if is_stair else epoch))

    return _list_rates(rate, total_step, step_per_epoch, decay_epoch, of="natural_exp_decay_lr")


def inverse_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """Return `learning_rate / (1 + decay_rate * epoch / decay_epoch)`; with `is_stair` the quotient is rounded down.

    Arguments and errors are those of `exponential_decay_lr`.
    """
    _check_decay(learning_rate, decay_rate, is_stair, of="inverse_decay_lr")

    def rate(epoch: int) -> float:
        return learning_rate / (1 + decay_rate * (epoch // decay_epoch if is_stair else epoch / decay_epoch))

    return _list_rates(rate, total_step, step_per_epoch, decay_epoch, of="inverse_decay_lr")


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """Return half a cosine from `max_lr` in epoch 0 down to `min_lr` in epoch `decay_epoch`, constant afterwards.

    `min_lr + (max_lr - min_lr) * (1 + cos(pi * min(epoch, decay_epoch) / decay_epoch)) / 2` (arXiv:1608.03983)

    Args:
        min_lr: the rate at the end, >= 0.
        max_lr: the rate at the beginning, above `min_lr`.
        total_step: number of steps: the length of the list.
        step_per_epoch: steps in an epoch.
        decay_epoch: the length of the decay in epochs.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range.
    """
    check_bounds(min_lr, max_lr, of="cosine_decay_lr")

    def rate(epoch: int) -> float:
        return min_lr + 0.5 * (max_lr - min_lr) * (1 + math.cos(math.pi * min(epoch, decay_epoch) / decay_epoch))

    return _list_rates(rate, total_step, step_per_epoch, decay_epoch, of="cosine_decay_lr")


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """Return a polynomial from `learning_rate` in epoch 0 to `end_learning_rate` in epoch `decay_epoch`, then constant.

    `(learning_rate - end_learning_rate) * (1 - min(epoch, decay_epoch) / decay_epoch) ** power + end_learning_rate`

    Args:
        learning_rate: the rate at the beginning, > 0.
        end_learning_rate: the rate at the end, >= 0.
        total_step: number of steps: the length of the list.
        step_per_epoch: steps in an epoch.
        decay_epoch: the length of the decay in epochs.
        power: the power of the polynomial, > 0.
        update_decay_epoch: whether `decay_epoch` grows to the next multiple of itself that isn't below the epoch,
            instead of the rate staying constant.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range.
    """
    of = "polynomial_decay_lr"
    checks.in_range(learning_rate, "learning_rate", "(0, inf)", of=of)
    checks.in_range(end_learning_rate, "end_learning_rate", "[0, inf)", of=of)
    checks.in_range(power, "power", "(0, inf)", of=of)
    checks.of_type(update_decay_epoch, "update_decay_epoch", bool, of=of)

    def rate(epoch: int) -> float:
        periods = epoch / decay_epoch
        progress = periods / max(math.ceil(periods), 1) if update_decay_epoch else min(periods, 1.0)
        return float((learning_rate - end_learning_rate) * (1 - progress) ** power + end_learning_rate)

    return _list_rates(rate, total_step, step_per_epoch, decay_epoch, of=of)


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """Return a linear increase from 0 in epoch 0 to `learning_rate` in epoch `warmup_epoch`, constant afterwards.

    Args:
        learning_rate: the rate at the end, >= 0.
        total_step: number of steps: the length of the list.
        step_per_epoch: steps in an epoch.
        warmup_epoch: the length of the warm-up in epochs.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `learning_rate` is negative, or a number of steps or epochs is below 1.
    """
    of = "warmup_lr"
    checks.in_range(learning_rate, "learning_rate", "[0, inf)", of=of)
    checks.positive_int(warmup_epoch, "warmup_epoch", of=of)
    return _list_rates(
        lambda epoch: learning_rate * min(epoch, warmup_epoch) / warmup_epoch, total_step, step_per_epoch, 1, of=of
    )


def _list_rates(
    rate: Callable[[int], float], total_step: int, step_per_epoch: int, decay_epoch: int, *, of: str
) -> list[float]:
    """Return, for each step, the rate of its epoch."""
    checks.positive_int(total_step, "total_step", of=of)
    checks.positive_int(step_per_epoch, "step_per_epoch", of=of)
    checks.positive_int(decay_epoch, "decay_epoch", of=of)
    return [rate(step // step_per_epoch) for step in range(total_step)]


def _check_decay(learning_rate: float, decay_rate: float, is_stair: bool, *, of: str) -> None:
    checks.in_range(learning_rate, "learning_rate", "(0, inf)", of=of)
    checks.in_range(decay_rate, "decay_rate", "(0, inf)", of=of)
    checks.of_type(is_stair, "is_stair", bool, of=of)
