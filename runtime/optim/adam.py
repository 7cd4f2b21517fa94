"""Adam and AdamW with torch's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import float64
from ..common.parameter import Parameter
from ..nn.optim.optimizer import Optimizer, number_for
from ..ops import elementwise
from .groups import as_groups


class Adam(Optimizer):
    """Adam (arXiv:1412.6980): `torch.optim.Adam`.

    `m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2`
    `w = w - lr / (1 - beta1**t) * m / (sqrt(v / (1 - beta2**t)) + eps)`

    Args:
        params: Parameters, or groups of them: dicts with Parameters under `params` and, optionally, `lr` and
            `weight_decay`.
        lr: a number >= 0, or another learning rate that `nn.Optimizer` accepts.
        betas: decay rates of the averages of the gradient and of its square, in [0, 1).
        eps: added to the square root, >= 0.
        weight_decay: the multiple of the Parameter that is added to the gradient, >= 0.
        amsgrad: whether to use the largest v so far instead of v (arXiv:1904.09237).

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range.
    """

    decoupled = False

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(lr, as_groups(params), weight_decay)
        self.beta1, self.beta2 = (checks.in_range(beta, "betas", "[0, 1)", of=self.cls_name) for beta in betas)
        self.eps = checks.in_range(eps, "eps", "[0, inf)", of=self.cls_name)
        self.amsgrad = checks.of_type(amsgrad, "amsgrad", bool, of=self.cls_name)
        # Always in float64: 1 - 0.999 has only five correct digits in float32.
        self.beta1_power = Parameter(np.ones((), float64), name="beta1_power")
        self.beta2_power = Parameter(np.ones((), float64), name="beta2_power")
        self.moment1 = self.parameters.clone(prefix="exp_avg", init="zeros")
        self.moment2 = self.parameters.clone(prefix="exp_avg_sq", init="zeros")
        self.largest: Any = self.parameters.clone(prefix="max_exp_avg_sq", init="zeros") if amsgrad else ()

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        beta1, beta2 = self.beta1, self.beta2
        power1, power2 = self.beta1_power * beta1, self.beta2_power * beta2
        # Folding both bias corrections into scalars saves passes over the Parameter, but needs eps multiplied by root.
        root = elementwise.sqrt(1 - power2)
        factor, eps = root / (1 - power1), root * self.eps

        def rule(w: Any, g: Any, lr: Any, *rest: Any) -> tuple[Any, ...]:
            (decay, m, v, *largest) = rest if self.decoupled else (None, *rest)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * (g * g)
            largest = [elementwise.maximum(x, v) for x in largest]
            w = w if decay is None else w * (1 - lr * decay)
            divisor = elementwise.sqrt(largest[0] if largest else v) + number_for(w, eps)
            return w - (lr * number_for(w, factor)) * m / divisor, m, v, *largest

        states = (self.moment1, self.moment2, *([self.largest] if self.amsgrad else []))
        result = self.update(rule, gradients, *states, decoupled_decay=self.decoupled)
        self.beta1_power.set_data(power1)
        self.beta2_power.set_data(power2)
        return result


class AdamW(Adam):
    """Adam with decoupled weight decay (arXiv:1711.05101): `torch.optim.AdamW`.

    The formulas are those of `Adam`, but `w` is first multiplied by `1 - lr * weight_decay`.

    Args:
        params: see `Adam`.
        lr: see `Adam`.
        betas: see `Adam`.
        eps: see `Adam`.
        weight_decay: the fraction of the Parameter, times `lr`, that is subtracted, >= 0.
        amsgrad: see `Adam`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range.
    """

    decoupled = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)
