"""RMSProp: steps scaled by a moving average of the squared gradient."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...ops import elementwise
from .optimizer import Optimizer


class RMSProp(Optimizer):
    """RMSProp (Hinton, lecture 6e of "Neural Networks for Machine Learning"), with `epsilon` under the square root.

    `v = decay * v + (1 - decay) * g**2`, with v initially 1
    `q = momentum * q + lr * g / sqrt(v + epsilon); w = w - q`

    With `centered`, `a = decay * a + (1 - decay) * g`, and `v - a**2` replaces v under the square root
    (arXiv:1308.0850). torch's `RMSprop` starts v at 0 and adds eps to the square root.

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        decay: the decay rate of the averages, >= 0.
        momentum: the factor of the previous step, >= 0.
        epsilon: added under the square root, > 0.
        use_locking: no effect, since nothing else changes the Parameters during a step.
        centered: whether to scale the step by the variance of the gradient.
        loss_scale: see `Optimizer`.
        weight_decay: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `decay` or `momentum` is negative, `epsilon` isn't above 0; see also `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.decay = checks.in_range(decay, "decay", "[0, inf)", of=self.cls_name)
        self.momentum = checks.in_range(momentum, "momentum", "[0, inf)", of=self.cls_name)
        self.epsilon = checks.in_range(epsilon, "epsilon", "(0, inf)", of=self.cls_name)
        checks.of_type(use_locking, "use_locking", bool, of=self.cls_name)
        self.centered = checks.of_type(centered, "centered", bool, of=self.cls_name)
        self.mg: Any = self.parameters.clone(prefix="mean_grad", init="zeros") if centered else ()
        self.ms = self.parameters.clone(prefix="mean_square", init="ones")
        self.moment = self.parameters.clone(prefix="moment", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        decay = self.decay

        def rule(w: Any, g: Any, lr: Any, v: Any, q: Any, *averages: Any) -> tuple[Any, ...]:
            v = decay * v + (1 - decay) * (g * g)
            averages = tuple(decay * a + (1 - decay) * g for a in averages)
            square = v - averages[0] * averages[0] if averages else v
            q = self.momentum * q + lr * g / elementwise.sqrt(square + self.epsilon)
            return w - q, v, q, *averages

        return self.update(rule, gradients, self.ms, self.moment, *([self.mg] if self.centered else []))
