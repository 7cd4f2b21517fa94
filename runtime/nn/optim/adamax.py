"""AdaMax: Adam with a decaying maximum of the gradients instead of the average of squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.dtype import float64
from ...common.parameter import Parameter
from ...ops import elementwise
from .adam import check_betas
from .optimizer import Optimizer, scalar


class AdaMax(Optimizer):
    """AdaMax (arXiv:1412.6980, section 7.1).

    `m = beta1 * m + (1 - beta1) * g; v = max(beta2 * v, abs(g)); w = w - lr / (1 - beta1**t) * m / (v + eps)`

    torch's `Adamax` adds eps to abs(g).

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        beta1: the decay rate of the average of the gradient, in (0, 1).
        beta2: the factor by which the largest gradient shrinks in each step, in (0, 1).
        eps: added to the largest gradient, > 0.
        weight_decay: see `Optimizer`.
        loss_scale: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `beta1`, `beta2` or `eps` is out of range; see also `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2, self.eps = check_betas(beta1, beta2, eps, of=self.cls_name)
        self.beta1_power = Parameter(np.ones(1, float64), name="beta1_power")
        self.moment1 = self.parameters.clone(prefix="moment1", init="zeros")
        self.moment2 = self.parameters.clone(prefix="moment2", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        beta1, beta2 = self.beta1, self.beta2
        power = self.beta1_power * beta1
        correction = scalar(1 / (1 - power))

        def rule(w: Any, g: Any, lr: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            m = beta1 * m + (1 - beta1) * g
            v = elementwise.maximum(beta2 * v, elementwise.abs(g))
            return w - lr * m / (v + self.eps), m, v

        result = self.update(rule, gradients, self.moment1, self.moment2, rate_factor=correction)
        self.beta1_power.set_data(power)
        return result
