"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.parameter import Parameter
from ...ops import comparison, elementwise
from .optimizer import Optimizer, number_for


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in torch's `SGD`.

    `v = g` in the first step and `v = momentum * v + (1 - dampening) * g` in later steps. Then `w = w - lr * v`; with
    `nesterov`, `w = w - lr * (g + momentum * v)`. Without momentum, `w = w - lr * g`.

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        momentum: the factor of the previous momentum, >= 0.
        dampening: >= 0; the gradient is multiplied by `1 - dampening` before it is added to the momentum.
        weight_decay: a number >= 0; see `Optimizer`.
        nesterov: whether to use Nesterov momentum; needs a momentum and no dampening.
        loss_scale: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `momentum` or `dampening` is negative, `nesterov` is used without momentum or with dampening, and as
            `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: Any = 0.0,
        nesterov: bool = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        checks.in_range(momentum, "momentum", "[0, inf)", of=self.cls_name)
        self.dampening = checks.in_range(dampening, "dampening", "[0, inf)", of=self.cls_name)
        self.nesterov = checks.of_type(nesterov, "nesterov", bool, of=self.cls_name)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"For '{self.cls_name}', 'nesterov' needs 'momentum' > 0 and 'dampening' 0, but got momentum "
                f"{momentum} and dampening {dampening}"
            )
        self._has_momentum = momentum > 0
        self.momentum = Parameter(np.asarray(momentum, self.number_dtype), name="momentum")
        self.accum = self.parameters.clone(prefix="accum", init="zeros")
        self.stat = self.parameters.clone(prefix="stat", init="ones")  # 1 until the first step

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""

        def rule(w: Any, g: Any, lr: Any, v: Any, stat: Any) -> tuple[Any, Any, Any]:
            if not self._has_momentum:
                return w - lr * g, v, stat
            momentum = number_for(w, self.momentum)
            v = elementwise.where(comparison.greater(stat, 0.0), g, momentum * v + (1 - self.dampening) * g)
            return w - lr * (g + momentum * v if self.nesterov else v), v, stat * 0

        return self.update(rule, gradients, self.accum, self.stat)
