"""Adagrad: steps scaled by the sum of the squared gradients."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...ops import elementwise
from .optimizer import Optimizer


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011): `a = a + g**2; w = w - lr * g / sqrt(a)`, with `accum` as the initial a.

    torch's `Adagrad` starts a at 0 and adds eps to the square root.

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        accum: the initial sum, >= 0.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        update_slots: whether the sum grows; otherwise it stays at `accum`.
        loss_scale: see `Optimizer`.
        weight_decay: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `accum` is negative; see also `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        accum: float = 0.1,
        learning_rate: Any = 0.001,
        update_slots: bool = True,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        checks.in_range(accum, "accum", "[0, inf)", of=self.cls_name)
        self.update_slots = checks.of_type(update_slots, "update_slots", bool, of=self.cls_name)
        self.accum = self.parameters.clone(prefix="accum", init=accum)

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""

        def rule(w: Any, g: Any, lr: Any, a: Any) -> tuple[Any, Any]:
            if self.update_slots:
                a = a + g * g
            return w - lr * g / elementwise.sqrt(a), a

        return self.update(rule, gradients, self.accum)
