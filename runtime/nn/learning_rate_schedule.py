"""Learning rates as functions of the step: Cells that an optimizer calls with its `global_step`.

The module `dynamic_lr` has functions of the epoch, which return lists of one rate per step.
"""

from __future__ import annotations

import math
from typing import Any

from .. import checks
from ..common.dtype import float32
from ..functional.operands import as_tensor
from ..ops import elementwise, rounding, trigonometry
from .cell import Cell


class LearningRateSchedule(Cell):
    """The base class of learning rates that change with the step.

    A subclass computes the rate in `construct(global_step)`. To train networks with float64 Parameters too, it must
    compute the rate from `self.number_of(global_step)`.

    Attributes:
        dtype: the dtype of the rate; float32, unless an optimizer of float64 Parameters sets float64.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dtype = float32

    def construct(self, global_step: Any) -> Any:
        """The rate at a step; a subclass defines it."""
        raise NotImplementedError(f"{self.cls_name} must define construct(self, global_step)")

    def number_of(self, global_step: Any) -> Any:
        """Convert the step, a tensor or number, to a tensor of `dtype`."""
        return elementwise.cast(as_tensor(global_step, "global_step", of=self.cls_name), dtype=self.dtype)


class _Decay(LearningRateSchedule):
    """The base class of decays by a rate: checks the arguments, and counts the decays."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        self.learning_rate = checks.in_range(learning_rate, "learning_rate", "(0, inf)", of=self.cls_name)
        self.decay_rate = checks.in_range(decay_rate, "decay_rate", "(0, inf)", of=self.cls_name)
        self.decay_steps = checks.positive_int(decay_steps, "decay_steps", of=self.cls_name)
        self.is_stair = checks.of_type(is_stair, "is_stair", bool, of=self.cls_name)

    def periods(self, global_step: Any) -> Any:
        """The number of decays before a step."""
        periods = self.number_of(global_step) / self.decay_steps
        return rounding.floor(periods) if self.is_stair else periods


class ExponentialDecayLR(_Decay):
    """`learning_rate * decay_rate ** (step / decay_steps)`.

    Args:
        learning_rate: the initial rate, > 0.
        decay_rate: the factor that each decay multiplies the rate by, > 0.
        decay_steps: steps per decay.
        is_stair: whether the rate decays in steps, after every `decay_steps` steps.

    Inputs:
        global_step: the number of the step, from 0; of any shape.

    Outputs:
        The rate, in the shape of `global_step`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a rate isn't above 0, or `decay_steps` is below 1.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate at a step."""
        return self.learning_rate * self.decay_rate ** self.periods(global_step)


class NaturalExpDecayLR(_Decay):
    """`learning_rate * exp(-decay_rate * step)`; `is_stair` rounds the step down to a multiple of `decay_steps`.

    Arguments, input, output and errors are those of `ExponentialDecayLR`.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate at a step."""
        step = self.periods(global_step) * self.decay_steps if self.is_stair else self.number_of(global_step)
        return self.learning_rate * elementwise.exp(-self.decay_rate * step)


class InverseDecayLR(_Decay):
    """`learning_rate / (1 + decay_rate * step / decay_steps)`; with `is_stair` the quotient is rounded down.

    Arguments, input, output and errors are those of `ExponentialDecayLR`.
    """

    def construct(self, global_step: Any) -> Any:
        """The rate at a step."""
        return self.learning_rate / (1 + self.decay_rate * self.periods(global_step))


class CosineDecayLR(LearningRateSchedule):
    """Half a cosine from `max_lr` at step 0 down to `min_lr` at `decay_steps`, then constant (arXiv:1608.03983).

    `min_lr + (max_lr - min_lr) * (1 + cos(pi * min(step, decay_steps) / decay_steps)) / 2`

    Args:
        min_lr: the rate at the end, >= 0.
        max_lr: the rate at the beginning, above `min_lr`.
        decay_steps: the length of the decay in steps.

    Inputs:
        global_step: number of the step, from 0; of any shape.

    Outputs:
        The rate, in the shape of `global_step`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a rate is out of range, or `decay_steps` is below 1.
    """

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        super().__init__()
        self.min_lr, self.max_lr = check_bounds(min_lr, max_lr, of=self.cls_name)
        self.decay_steps = checks.positive_int(decay_steps, "decay_steps", of=self.cls_name)

    def construct(self, global_step: Any) -> Any:
        """The rate at a step."""
        progress = elementwise.clamp(self.number_of(global_step), maximum=self.decay_steps) / self.decay_steps
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + trigonometry.cos(math.pi * progress))


class PolynomialDecayLR(LearningRateSchedule):
    """A polynomial from `learning_rate` at step 0 to `end_learning_rate` at `decay_steps`, then constant.

    `(learning_rate - end_learning_rate) * (1 - min(step, decay_steps) / decay_steps) ** power + end_learning_rate`

    Args:
        learning_rate: the rate at the beginning, > 0.
        end_learning_rate: the rate at the end, >= 0.
        decay_steps: the length of the decay in steps.
        power: the power of the polynomial, > 0.
        update_decay_steps: whether `decay_steps` grows to the next multiple of itself that isn't below the step,
            instead of the rate staying constant.

    Inputs:
        global_step: number of the step, from 0; of any shape.

    Outputs:
        The rate, in the shape of `global_step`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        learning_rate: float,
        end_learning_rate: float,
        decay_steps: int,
        power: float,
        update_decay_steps: bool = False,
    ) -> None:
        super().__init__()
        self.start_learning_rate = checks.in_range(learning_rate, "learning_rate", "(0, inf)", of=self.cls_name)
        self.end_learning_rate = checks.in_range(end_learning_rate, "end_learning_rate", "[0, inf)", of=self.cls_name)
        self.decay_steps = checks.positive_int(decay_steps, "decay_steps", of=self.cls_name)
        self.power = checks.in_range(power, "power", "(0, inf)", of=self.cls_name)
        self.update_decay_steps = checks.of_type(update_decay_steps, "update_decay_steps", bool, of=self.cls_name)

    def construct(self, global_step: Any) -> Any:
        """The rate at a step."""
        periods = self.number_of(global_step) / self.decay_steps
        if self.update_decay_steps:
            progress = periods / elementwise.clamp(rounding.ceil(periods), minimum=1)
        else:
            progress = elementwise.clamp(periods, maximum=1)
        span = self.start_learning_rate - self.end_learning_rate
        return span * (1 - progress) ** self.power + self.end_learning_rate


class WarmUpLR(LearningRateSchedule):
    """A linear increase from 0 at step 0 to `learning_rate` at `warmup_steps`, then constant.

    Args:
        learning_rate: the rate at the end, >= 0.
        warmup_steps: the length of the warm-up in steps.

    Inputs:
        global_step: number of the step, from 0; of any shape.

    Outputs:
        The rate, in the shape of `global_step`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `learning_rate` is negative, or `warmup_steps` is below 1.
    """

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.learning_rate = checks.in_range(learning_rate, "learning_rate", "[0, inf)", of=self.cls_name)
        self.warmup_steps = checks.positive_int(warmup_steps, "warmup_steps", of=self.cls_name)

    def construct(self, global_step: Any) -> Any:
        """The rate at a step."""
        step = elementwise.clamp(self.number_of(global_step), maximum=self.warmup_steps)
        return self.learning_rate * (step / self.warmup_steps)


def check_bounds(min_lr: float, max_lr: float, *, of: str) -> tuple[float, float]:
    """Return the two rates if 0 <= `min_lr` < `max_lr`; otherwise raise `ValueError`."""
    checks.in_range(min_lr, "min_lr", "[0, inf)", of=of)
    checks.in_range(max_lr, "max_lr", "(0, inf)", of=of)
    if min_lr >= max_lr:
        raise ValueError(f"For '{of}', 'max_lr' must be above 'min_lr', but got max_lr {max_lr} and min_lr {min_lr}")
    return min_lr, max_lr
