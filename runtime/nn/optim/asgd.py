"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import float64
from ...common.parameter import Parameter, ParameterTuple
from ...ops import comparison, elementwise
from .optimizer import Optimizer, number_for, scalar


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992), as in torch's `ASGD`.

    `w = w * (1 - lambd * eta) - eta * g; average = average + (w - average) * mu`, where after step t
    `eta = lr / (1 + lambd * lr * t) ** alpha` and `mu = 1 / max(1, t - t0)`

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        lambd: the decay rate of the Parameters.
        alpha: the exponent of the decay of `eta`.
        t0: the number of steps before averaging starts.
        weight_decay: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Attributes:
        ax: the averages, a Parameter for each of `parameters`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: see `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self.lambd = checks.of_type(lambd, "lambd", (int, float), of=self.cls_name)
        self.alpha = checks.of_type(alpha, "alpha", (int, float), of=self.cls_name)
        self.t0 = checks.of_type(t0, "t0", (int, float), of=self.cls_name)
        self.mu = self._create_numbers("mu", 1.0)
        self.eta = self._create_numbers("eta", 0.0)
        self.ax = self.parameters.clone(prefix="ax_", init="zeros")

    def _create_numbers(self, name: str, value: float) -> ParameterTuple:
        return ParameterTuple(
            Parameter(np.asarray(value, self.number_dtype), name=f"{name}_{parameter.name}")
            for parameter in self.parameters
        )

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        step = elementwise.cast(scalar(self.global_step), dtype=float64) + 1
        first = (step == 1)._data
        weight = 1 / elementwise.maximum(step - self.t0, 1.0)

        def rule(w: Any, g: Any, lr: Any, mu: Any, eta: Any, average: Any) -> tuple[Any, ...]:
            eta = elementwise.where(first, lr, eta.astype(w.dtype))
            w = w * (1 - self.lambd * eta) - eta * g
            mu = mu.astype(w.dtype)
            average = elementwise.where(comparison.equal(mu, 1.0), w, average + (w - average) * mu)
            eta = lr / (1 + self.lambd * lr * number_for(w, step)) ** self.alpha
            return w, weight._data, eta, average

        return self.update(rule, gradients, self.mu, self.eta, self.ax)
