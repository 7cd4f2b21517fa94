"""Gradient descent with momentum, with the learning rate applied after the momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.parameter import Parameter
from .optimizer import Optimizer, number_for


class Momentum(Optimizer):
    """Gradient descent with momentum (Sutskever et al. 2013).

    `v = momentum * v + g; w = w - lr * v`; with `use_nesterov`, `w = w - lr * (g + momentum * v)`

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        momentum: the factor of the previous momentum, >= 0.
        weight_decay: see `Optimizer`.
        loss_scale: see `Optimizer`.
        use_nesterov: whether to use Nesterov momentum.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `momentum` is negative; see also `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any,
        momentum: float,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        checks.in_range(momentum, "momentum", "[0, inf)", of=self.cls_name)
        self.momentum = Parameter(np.asarray(momentum, self.number_dtype), name="momentum")
        self.use_nesterov = checks.of_type(use_nesterov, "use_nesterov", bool, of=self.cls_name)
        self.moments = self.parameters.clone(prefix="moments", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""

        def rule(w: Any, g: Any, lr: Any, v: Any) -> tuple[Any, Any]:
            momentum = number_for(w, self.momentum)
            v = momentum * v + g
            return w - lr * (g + momentum * v if self.use_nesterov else v), v

        return self.update(rule, gradients, self.moments)
