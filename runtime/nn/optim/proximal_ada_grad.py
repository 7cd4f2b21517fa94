"""Adagrad with a proximal step, which makes small Parameters 0."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...ops import elementwise
from .optimizer import Optimizer


class ProximalAdagrad(Optimizer):
    """Adagrad with a proximal step (Duchi and Singer 2009), with `accum` as the initial a.

    `a = a + g**2; s = lr / sqrt(a); p = w - s * g; w = sign(p) * max(|p| - s * l1, 0) / (1 + s * l2)`

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        accum: the initial sum of squares, >= 0.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        l1: the strength of L1 regularization, >= 0.
        l2: the strength of L2 regularization, >= 0.
        use_locking: no effect, since nothing else changes the Parameters during a step.
        loss_scale: see `Optimizer`.
        weight_decay: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range; see also `Optimizer`.
    """

    def __init__(
        self, params: Any, accum: float = 0.1, learning_rate: Any = 0.001, l1: float = 0.0, l2: float = 0.0,
        use_locking: bool = False, loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        checks.in_range(accum, "accum", "[0, inf)", of=self.cls_name)
        self.l1 = checks.in_range(l1, "l1", "[0, inf)", of=self.cls_name)
        self.l2 = checks.in_range(l2, "l2", "[0, inf)", of=self.cls_name)
        checks.of_type(use_locking, "use_locking", bool, of=self.cls_name)
        self.accum = self.parameters.clone(prefix="accum", init=accum)

    def construct(self, grads: Any) -> Any:
        """Update the Parameters."""
        l1, l2 = self.l1, self.l2

        def rule(w: Any, g: Any, lr: Any, a: Any) -> tuple[Any, Any]:
            a = a + g * g
            step = lr / elementwise.sqrt(a)
            p = w - step * g
            return elementwise.sign(p) * elementwise.maximum(elementwise.abs(p) - step * l1, 0.0) / (1 + step * l2), a

        return self.update(rule, grads, self.accum)
