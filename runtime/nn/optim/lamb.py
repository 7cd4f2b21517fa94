"""Lamb: Adam with each Parameter's step scaled to the norm of the Parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.dtype import float64
from ...ops import comparison, elementwise, reduction
from .adam import check_betas
from .optimizer import Optimizer, number_for, scalar


class Lamb(Optimizer):
    """Lamb (You et al. 2019, algorithm 2): the learning rate of each Parameter is proportional to its norm.

    `m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2`
    `r = m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + eps) + weight_decay * w`
    `w = w - lr * |w| / |r| * r`, where `|w| / |r|` is 1 if a norm is 0

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
        self, params: Any, learning_rate: Any, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6,
        weight_decay: Any = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, params, weight_decay)
        self.beta1, self.beta2, self.eps = check_betas(beta1, beta2, eps, of=self.cls_name)
        self.moments1 = self.parameters.clone(prefix="lamb_m", init="zeros")
        self.moments2 = self.parameters.clone(prefix="lamb_v", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        beta1, beta2 = self.beta1, self.beta2
        step = elementwise.cast(scalar(self.global_step), dtype=float64) + 1
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step

        def rule(w: Any, g: Any, lr: Any, decay: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * (g * g)
            r = (m / number_for(m, correction1)) / (elementwise.sqrt(v / number_for(v, correction2)) + self.eps)
            r = r if decay is None else r + decay * w
            norm_w, norm_r = _norm(w), _norm(r)
            is_zero = comparison.logical_or(comparison.equal(norm_w, 0.0), comparison.equal(norm_r, 0.0))
            trust_ratio = elementwise.where(is_zero, np.ones((), w.dtype), norm_w / norm_r)
            return w - (lr * trust_ratio) * r, m, v

        return self.update(rule, gradients, self.moments1, self.moments2, decoupled_decay=True)


def _norm(x: Any) -> Any:
    return elementwise.sqrt(reduction.reduce_sum(x * x))
