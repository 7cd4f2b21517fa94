"""Adadelta: steps scaled by moving averages of the squares of gradients and of updates."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...ops import elementwise
from .optimizer import Optimizer


class Adadelta(Optimizer):
    """Adadelta (arXiv:1212.5701), as in torch's `Adadelta`.

    `a = rho * a + (1 - rho) * g**2; u = sqrt(b + epsilon) / sqrt(a + epsilon) * g`
    `b = rho * b + (1 - rho) * u**2; w = w - lr * u`

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        rho: the decay rate of the averages, in [0, 1].
        epsilon: added under the square roots, >= 0.
        loss_scale: see `Optimizer`.
        weight_decay: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `rho` or `epsilon` is out of range; see also `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 1.0,
        rho: float = 0.9,
        epsilon: float = 1e-6,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.rho = checks.in_range(rho, "rho", "[0, 1]", of=self.cls_name)
        self.epsilon = checks.in_range(epsilon, "epsilon", "[0, inf)", of=self.cls_name)
        self.accum = self.parameters.clone(prefix="accum", init="zeros")
        self.accum_update = self.parameters.clone(prefix="accum_update", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        rho, epsilon = self.rho, self.epsilon

        def rule(w: Any, g: Any, lr: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
            a = rho * a + (1 - rho) * (g * g)
            u = elementwise.sqrt(b + epsilon) / elementwise.sqrt(a + epsilon) * g
            b = rho * b + (1 - rho) * (u * u)
            return w - lr * u, a, b

        return self.update(rule, gradients, self.accum, self.accum_update)
