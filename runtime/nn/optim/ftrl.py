"""FTRL (follow the regularized leader), which makes Parameters sparse."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...ops import comparison, elementwise
from .optimizer import Optimizer


class FTRL(Optimizer):
    """Follow the regularized leader (McMahan et al. 2013); a starts at `initial_accum`, and z at 0.

    `a' = a + g**2; z = z + g - (a'**-lr_power - a**-lr_power) / lr * w; a = a'`
    `w = (sign(z) * l1 - z) / (a**-lr_power / lr + 2 * l2)` where `|z| > l1`, else 0

    Args:
        params: Parameters or groups of them without learning rates of their own; see `Optimizer`.
        initial_accum: the initial sum of squares, >= 0.
        learning_rate: a number > 0.
        lr_power: the power of the sum, <= 0; -0.5 divides the learning rate by the square root of the sum.
        l1: the strength of L1 regularization, >= 0.
        l2: the strength of L2 regularization, >= 0.
        use_locking: no effect, since nothing else changes the Parameters during a step.
        loss_scale: see `Optimizer`.
        weight_decay: added to the gradient (L2), for every Parameter.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range, a group has its own learning rate; see also `Optimizer`.
    """

    def __init__(
        self, params: Any, initial_accum: float = 0.1, learning_rate: float = 0.001, lr_power: float = -0.5,
        l1: float = 0.0, l2: float = 0.0, use_locking: bool = False, loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:  # fmt: skip
        of = self.cls_name
        checks.in_range(learning_rate, "learning_rate", "(0, inf)", of=of)
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if self.is_group_lr:
            raise ValueError(f"For '{of}', all Parameters must have one learning rate, but a group has its own")
        checks.in_range(initial_accum, "initial_accum", "[0, inf)", of=of)
        self.lr_power = checks.in_range(lr_power, "lr_power", "(-inf, 0]", of=of)
        self.l1 = checks.in_range(l1, "l1", "[0, inf)", of=of)
        self.l2 = checks.in_range(l2, "l2", "[0, inf)", of=of)
        checks.of_type(use_locking, "use_locking", bool, of=of)
        if not self.is_group:
            self.decay_flags = (True,) * len(self.parameters)
        self.moments = self.parameters.clone(prefix="moments", init=initial_accum)
        self.linear = self.parameters.clone(prefix="linear", init="zeros")

    def construct(self, grads: Any) -> Any:
        """Update the Parameters."""
        power, l1 = -self.lr_power, self.l1

        def rule(w: Any, g: Any, lr: Any, a: Any, z: Any) -> tuple[Any, Any, Any]:
            after = a + g * g
            z = z + g - (after**power - a**power) / lr * w
            w = (elementwise.sign(z) * l1 - z) / (after**power / lr + 2 * self.l2)
            large = comparison.greater(elementwise.abs(z), l1)
            return w * elementwise.cast(large, dtype=w.dtype), after, z

        return self.update(rule, grads, self.moments, self.linear)
