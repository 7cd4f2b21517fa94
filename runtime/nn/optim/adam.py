"""Adam and its variants: steps scaled by moving averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import float64
from ...common.parameter import Parameter
from ...ops import elementwise
from .optimizer import Optimizer


class Adam(Optimizer):
    """Adam (arXiv:1412.6980), in the form that adds `eps` to the square root of the uncorrected average.

    `m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2`
    `w = w - lr * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + eps)`

    torch's `Adam` corrects v first, so its eps has `sqrt(1 - beta2**t)` times the effect.

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        beta1: the decay rate of the average of the gradient, in (0, 1).
        beta2: the decay rate of the average of its square, in (0, 1).
        eps: added to the square root, > 0.
        use_locking: no effect, since nothing else changes the Parameters during a step.
        use_nesterov: whether to use `beta1 * m + (1 - beta1) * g` instead of m in the update.
        weight_decay: added to the gradient (L2); see `Optimizer`.
        loss_scale: see `Optimizer`.
        use_amsgrad: whether to use the largest v so far instead of v (arXiv:1904.09237).
        use_lazy: no effect, since gradients are dense.
        use_offload: no effect, since state isn't moved between devices.

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
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_locking: bool = False,
        use_nesterov: bool = False,
        weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
        use_amsgrad: bool = False,
        *,
        use_lazy: bool = False,
        use_offload: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2, self.eps = check_betas(beta1, beta2, eps, of=self.cls_name)
        flags = {"use_locking": use_locking, "use_lazy": use_lazy, "use_offload": use_offload}
        for name, flag in flags.items():
            checks.of_type(flag, name, bool, of=self.cls_name)
        self.use_nesterov = checks.of_type(use_nesterov, "use_nesterov", bool, of=self.cls_name)
        self.use_amsgrad = checks.of_type(use_amsgrad, "use_amsgrad", bool, of=self.cls_name)
        # Always in float64: 1 - 0.999 has only five correct digits in float32.
        self.beta1_power = Parameter(np.ones((), float64), name="beta1_power")
        self.beta2_power = Parameter(np.ones((), float64), name="beta2_power")
        self.moment1 = self.parameters.clone(prefix="moment1", init="zeros")
        self.moment2 = self.parameters.clone(prefix="moment2", init="zeros")
        self.vhat: Any = self.parameters.clone(prefix="vhat", init="zeros") if use_amsgrad else ()

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        beta1, beta2 = self.beta1, self.beta2
        power1, power2 = self.beta1_power * beta1, self.beta2_power * beta2
        correction = elementwise.sqrt(1 - power2) / (1 - power1)

        def rule(w: Any, g: Any, lr: Any, m: Any, v: Any, *largest: Any) -> tuple[Any, ...]:
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * (g * g)
            largest = tuple(elementwise.maximum(x, v) for x in largest)
            step = beta1 * m + (1 - beta1) * g if self.use_nesterov else m
            return w - lr * step / (elementwise.sqrt(largest[0] if largest else v) + self.eps), m, v, *largest

        states = (self.moment1, self.moment2, *([self.vhat] if self.use_amsgrad else []))
        result = self.update(rule, gradients, *states, rate_factor=correction)
        self.beta1_power.set_data(power1)
        self.beta2_power.set_data(power2)
        return result


class AdamWeightDecay(Optimizer):
    """Adam with decoupled weight decay (arXiv:1711.05101), without bias correction.

    `m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2`
    `w = w - lr * (m / (sqrt(v) + eps) + weight_decay * w)`

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule; see `Optimizer`.
        beta1: the decay rate of the average of the gradient, in (0, 1).
        beta2: the decay rate of the average of its square, in (0, 1).
        eps: added to the square root, > 0.
        weight_decay: as in the formula; see `Optimizer` for exempt Parameters.

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
        learning_rate: Any = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self.beta1, self.beta2, self.eps = check_betas(beta1, beta2, eps, of=self.cls_name)
        self.moments1 = self.parameters.clone(prefix="adam_m", init="zeros")
        self.moments2 = self.parameters.clone(prefix="adam_v", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        beta1, beta2 = self.beta1, self.beta2

        def rule(w: Any, g: Any, lr: Any, decay: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * (g * g)
            step = m / (elementwise.sqrt(v) + self.eps)
            return w - lr * (step if decay is None else step + decay * w), m, v

        return self.update(rule, gradients, self.moments1, self.moments2, decoupled_decay=True)


def check_betas(beta1: float, beta2: float, eps: float, *, of: str) -> tuple[float, float, float]:
    """Return the arguments if both betas are in (0, 1) and `eps` > 0; otherwise raise `ValueError` or `TypeError`."""
    checks.in_range(beta1, "beta1", "(0, 1)", of=of)
    checks.in_range(beta2, "beta2", "(0, 1)", of=of)
    checks.in_range(eps, "eps", "(0, inf)", of=of)
    return beta1, beta2, eps
