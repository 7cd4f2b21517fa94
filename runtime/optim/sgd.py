"""Stochastic gradient descent with torch's formulas."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..nn.optim.optimizer import Optimizer, number_for
from ..ops import comparison, elementwise, shaping
from .groups import as_groups


class SGD(Optimizer):
    """Stochastic gradient descent: `torch.optim.SGD`.

    `v = g` in the first step and `v = momentum * v + (1 - dampening) * g` in later steps. Then `w = w - lr * v`; with
    `nesterov`, `w = w - lr * (g + momentum * v)`. Without momentum, `w = w - lr * g`.

    Args:
        params: Parameters, or groups of them: dicts with Parameters under `params` and, optionally, `lr` and
            `weight_decay`.
        lr: a number >= 0, or another learning rate that `nn.Optimizer` accepts.
        momentum: the factor of the previous momentum, >= 0.
        dampening: >= 0; the gradient is multiplied by `1 - dampening` before it is added to the momentum.
        weight_decay: the multiple of the Parameter that is added to the gradient, >= 0.
        nesterov: whether to use Nesterov momentum; requires a momentum and no dampening.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a number is out of range, or `nesterov` is used without momentum or with dampening.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(lr, as_groups(params), weight_decay)
        of = self.cls_name
        self.momentum = checks.in_range(momentum, "momentum", "[0, inf)", of=of)
        self.dampening = checks.in_range(dampening, "dampening", "[0, inf)", of=of)
        self.nesterov = checks.of_type(nesterov, "nesterov", bool, of=of)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"For '{of}', 'nesterov' needs 'momentum' > 0 and 'dampening' 0, but got momentum {momentum} and "
                f"dampening {dampening}"
            )
        self.moments: Any = self.parameters.clone(prefix="momentum_buffer", init="zeros") if momentum else ()

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        momentum = self.momentum
        if not momentum:
            return self.update(lambda w, g, lr: (w - lr * g,), gradients)
        share: Any = None
        if self.dampening:  # the first gradient isn't dampened
            later = comparison.greater(shaping.reshape(self.global_step.value(), shape=()), 0)
            share = 1 - self.dampening * elementwise.cast(later, dtype=self.number_dtype)

        def rule(w: Any, g: Any, lr: Any, v: Any) -> tuple[Any, Any]:
            v = momentum * v + (g if share is None else number_for(w, share) * g)
            return w - lr * (g + momentum * v if self.nesterov else v), v

        return self.update(rule, gradients, self.moments)
