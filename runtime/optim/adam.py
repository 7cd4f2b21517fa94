"""Adam and AdamW, as torch has them."""

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
        lr: a number >= 0, or whatever else `nn.Optimizer` takes as a learning rate.
        betas: weights of the old averages of the gradient and of its square, in [0, 1).
        eps: added to the root, >= 0.
        weight_decay: times the Parameter is added to the gradient, >= 0.
        amsgrad: whether the largest v so far takes the place of v in the step (arXiv:1904.09237).

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument is of another type.
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
        # In float64 whatever is trained: 1 - 0.999 has five correct digits in float32.
        self.beta1_power = Parameter(np.ones((), float64), name="beta1_power")
        self.beta2_power = Parameter(np.ones((), float64), name="beta2_power")
        self.moment1 = self.parameters.clone(prefix="exp_avg", init="zeros")
        self.moment2 = self.parameters.clone(prefix="exp_avg_sq", init="zeros")
        self.largest: Any = self.parameters.clone(prefix="max_exp_avg_sq", init="zeros") if amsgrad else ()

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        beta1, beta2 = self.beta1, self.beta2
        power1, power2 = self.beta1_power * beta1, self.beta2_power * beta2
        # both corrections in numbers, so that none takes a pass over the Parameter: eps counts root times as much
        root = elementwise.sqrt(1 - power2)
        factor, eps = root / (1 - power1), root * self.eps

        def rule(w: Any, g: Any, lr: Any, *rest: Any) -> tuple[Any, ...]:
            (decay, m, v, *largest) = rest if self.decoupled else (None, *rest)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * (g * g)
            largest = [elementwise.maximum(x, v) for x in largest]
            kept = w if decay is None else w * (1 - lr * decay)
            divisor = elementwise.sqrt(largest[0] if largest else v) + number_for(w, eps)
            return kept - (lr * number_for(w, factor)) * m / divisor, m, v, *largest

        states = (self.moment1, self.moment2, *([self.largest] if self.amsgrad else []))
        done = self.update(rule, gradients, *states, decoupled_decay=self.decoupled)
        self.beta1_power.set_data(power1)
        self.beta2_power.set_data(power2)
        return done


class AdamW(Adam):
    """Adam with weight decay apart from the gradient (arXiv:1711.05101): `torch.optim.AdamW`.

    As `Adam`, but that `w` is first multiplied by `1 - lr * weight_decay`.

    Args:
        params: see `Adam`.
        lr: see `Adam`.
        betas: see `Adam`.
        eps: see `Adam`.
        weight_decay: how much of the Parameter is taken off, >= 0.
        amsgrad: see `Adam`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument is of another type.
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
