"""`LossBase`, the base class of losses, and losses that compare numbers or probabilities element by element.

See also `classification` and `margin`.
"""

from __future__ import annotations

import warnings
from typing import Any

from ... import checks
from ...functional import losses
from ...functional.operands import as_floating
from ...ir.types import FLOAT32, is_half
from ...ops import elementwise
from ..cell import Cell


class LossBase(Cell):
    """The base class of losses: a subclass's `construct` passes the losses of the elements to `get_loss`.

    Args:
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: `reduction` is unknown.
    """

    reductions: tuple[str, ...] = losses.REDUCTIONS

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = checks.one_of(reduction, "reduction", self.reductions, of=self.cls_name)

    def get_axis(self, x: Any) -> tuple[int, ...]:
        """All axes of `x`."""
        return tuple(range(x.ndim))

    def get_loss(self, x: Any, weights: Any = 1.0) -> Any:
        """Multiply the losses of the elements by weights, and apply the reduction.

        Args:
            x: losses, any shape; half precision is computed in float32.
            weights: a number, or a tensor that broadcasts.

        Returns:
            A tensor of the dtype of `x`, 0-d unless the reduction is "none".
        """
        x = as_floating(x, "x", of=self.cls_name)
        upcast_x = elementwise.cast(x, dtype=FLOAT32) if is_half(x.dtype) else x
        loss = losses.reduce_loss(upcast_x * weights, self.reduction, of=self.cls_name)
        return elementwise.cast(loss, dtype=x.dtype)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss; a subclass defines it."""
        raise NotImplementedError(f"{self.cls_name} must define construct(self, logits, labels)")

    def extend_repr(self) -> str:
        """The reduction."""
        return f"reduction={self.reduction}"


class _Loss(LossBase):
    """The former name of `LossBase`; warns with `DeprecationWarning`."""

    def __init__(self, reduction: str = "mean") -> None:
        warnings.warn("'_Loss' is deprecated: derive from 'LossBase'", DeprecationWarning, stacklevel=2)
        super().__init__(reduction)


# ---- numbers ----


class MSELoss(LossBase):
    """(logits - labels)**2, reduced.

    Args:
        reduction: "mean", "sum" or "none".
    """

    def construct(self, logits: Any, labels: Any) -> Any:
        """Two tensors whose shapes broadcast."""
        return losses.mse_loss(logits, labels, self.reduction)


class RMSELoss(LossBase):
    """The square root of the mean of (logits - label)**2."""

    def __init__(self) -> None:
        super().__init__()

    def construct(self, logits: Any, label: Any) -> Any:
        """Two tensors whose shapes broadcast; returns a 0-d tensor."""
        return elementwise.sqrt(losses.mse_loss(logits, label))


class L1Loss(LossBase):
    """|logits - labels|, reduced.

    Args:
        reduction: "mean", "sum" or "none".
    """

    def construct(self, logits: Any, labels: Any) -> Any:
        """Two tensors whose shapes broadcast."""
        return losses.l1_loss(logits, labels, self.reduction)


class MAELoss(LossBase):
    """|logits - label|, reduced: `L1Loss`.

    Args:
        reduction: "mean", "sum" or "none".
    """

    def construct(self, logits: Any, label: Any) -> Any:
        """Two tensors whose shapes broadcast."""
        return losses.l1_loss(logits, label, self.reduction)


class SmoothL1Loss(LossBase):
    """Quadratic where |logits - labels| is below `beta`, linear beyond: see `ops.smooth_l1_loss`.

    Args:
        beta: at least 0.
        reduction: "mean", "sum" or "none"; torch's default is "mean".

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, beta: float = 1.0, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.beta = checks.in_range(beta, "beta", "[0, inf)", of="SmoothL1Loss")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Two tensors of the same shape."""
        return losses.smooth_l1_loss(logits, labels, self.beta, self.reduction)

    def extend_repr(self) -> str:
        """The arguments."""
        return f"beta={self.beta}, reduction={self.reduction}"


class HuberLoss(LossBase):
    """Quadratic where |logits - labels| is at most `delta`, linear beyond: see `ops.huber_loss`.

    Args:
        reduction: "mean", "sum" or "none".
        delta: above 0.

    Raises:
        ValueError: an argument is out of range.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = checks.in_range(delta, "delta", "(0, inf)", of="HuberLoss")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Two tensors whose shapes broadcast."""
        return losses.huber_loss(logits, labels, self.reduction, self.delta)

    def extend_repr(self) -> str:
        """The arguments."""
        return f"reduction={self.reduction}, delta={self.delta}"


# ---- probabilities ----


class BCELoss(LossBase):
    """Binary cross entropy of probabilities: see `ops.binary_cross_entropy`.

    Args:
        weight: a factor for each element; broadcasts.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = weight

    def construct(self, logits: Any, labels: Any) -> Any:
        """Probabilities and labels of the same shape, in [0, 1]."""
        return losses.binary_cross_entropy(logits, labels, self.weight, self.reduction)


class BCEWithLogitsLoss(LossBase):
    """`BCELoss` of sigmoid(input), without taking logarithms of small numbers.

    Args:
        reduction: "mean", "sum" or "none".
        weight: a factor for each element; broadcasts.
        pos_weight: a factor for positives (where the target is 1); broadcasts.
    """

    def __init__(self, reduction: str = "mean", weight: Any = None, pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.weight = weight
        self.pos_weight = pos_weight

    def construct(self, input: Any, target: Any) -> Any:
        """Logits and targets of the same shape, the targets in [0, 1]."""
        return losses.binary_cross_entropy_with_logits(input, target, self.weight, self.pos_weight, self.reduction)


class KLDivLoss(LossBase):
    """labels * (log(labels) - logits): the divergence of two distributions, see `ops.kl_div`.

    Args:
        reduction: "mean" over elements, "batchmean", "sum" or "none".
    """

    reductions = (*losses.REDUCTIONS, "batchmean")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Logarithms of probabilities, and probabilities, of the same shape."""
        return losses.kl_div(logits, labels, self.reduction)


class GaussianNLLLoss(LossBase):
    """Negative log likelihood of normal distributions: see `ops.gaussian_nll_loss`.

    Args:
        full: whether the constant term is added.
        eps: the lower bound for the variance, above 0.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = checks.of_type(full, "full", bool, of="GaussianNLLLoss")
        self.eps = checks.in_range(eps, "eps", "(0, inf)", of="GaussianNLLLoss")

    def construct(self, logits: Any, labels: Any, var: Any) -> Any:
        """Means, samples and variances."""
        return losses.gaussian_nll_loss(logits, labels, var, self.full, self.eps, self.reduction)


class PoissonNLLLoss(LossBase):
    """Negative log likelihood of Poisson distributions: see `ops.poisson_nll_loss`.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: whether Stirling's approximation of log(target!) is added.
        eps: keeps the logarithm of a rate finite.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def construct(self, input: Any, target: Any) -> Any:
        """Rates or their logarithms, and counts, of the same shape."""
        return losses.poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)
