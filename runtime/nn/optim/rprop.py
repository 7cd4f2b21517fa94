"""Rprop: step sizes that depend only on the signs of the gradient."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...ops import comparison, elementwise
from .optimizer import Optimizer, scalar


class Rprop(Optimizer):
    """Resilient backpropagation (Riedmiller and Braun 1993), as in torch's `Rprop`.

    Each element has a step size, initially the learning rate. The step size is multiplied by the second of `etas` if
    the gradient has the same sign as in the previous step. If the sign has changed, the step size is multiplied by the
    first of `etas`, and the element isn't updated.

    Args:
        params: Parameters or groups of them; see `Optimizer`.
        learning_rate: a number, a list with one number per step, or a schedule, of which only the first rate is used;
            see `Optimizer`.
        etas: two factors: one in (0, 1), which shrinks a step size, and one above 1, which grows it.
        step_sizes: the smallest and the largest step size.
        weight_decay: see `Optimizer`.

    Inputs:
        gradients: a tuple of tensors, one for each Parameter.

    Outputs:
        A tuple of True, one for each Parameter.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a tuple doesn't have two elements, or an element is out of range; see also `Optimizer`.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: Any = 0.1,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        for name, pair in {"etas": etas, "step_sizes": step_sizes}.items():
            checks.of_type(pair, name, tuple, of=self.cls_name)
            if len(pair) != 2:
                raise ValueError(f"For '{self.cls_name}', '{name}' must be a tuple of 2 numbers, but got {pair}")
        checks.in_range(etas[0], "etas[0]", "(0, 1)", of=self.cls_name)
        checks.in_range(etas[1], "etas[1]", "(1, inf)", of=self.cls_name)
        checks.in_range(step_sizes[0], "step_sizes[0]", "(-inf, inf)", of=self.cls_name)
        checks.in_range(step_sizes[1], "step_sizes[1]", f"[{step_sizes[0]}, inf)", of=self.cls_name)
        self.etas = etas
        self.step_sizes = step_sizes
        self.prev = self.parameters.clone(prefix="prev", init="zeros")
        self.step_size = self.parameters.clone(prefix="step_size", init="zeros")

    def construct(self, gradients: Any) -> Any:
        """Update the Parameters."""
        (shrinking, growing), (smallest, largest) = self.etas, self.step_sizes
        first = (scalar(self.global_step) == 0)._data

        def rule(w: Any, g: Any, lr: Any, previous: Any, size: Any) -> tuple[Any, Any, Any]:
            agreement = elementwise.sign(g * previous)
            size = elementwise.where(first, size + lr, size)
            factor = elementwise.where(comparison.greater(agreement, 0.0), size * growing, size)
            reversed_ = comparison.less(agreement, 0.0)
            size = elementwise.where(reversed_, size * shrinking, factor)
            size = elementwise.clamp(size, minimum=smallest, maximum=largest)
            g = elementwise.where(reversed_, g * 0, g)
            return w - elementwise.sign(g) * size, g, size

        return self.update(rule, gradients, self.prev, self.step_size)
