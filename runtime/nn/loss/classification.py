"""Classification losses: the variants of cross entropy. See also `segmentation`."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.tensor import Tensor
from ...functional import cross_entropy
from ...functional.operands import require_floating
from .loss import LossBase


class SoftmaxCrossEntropyWithLogits(LossBase):
    """Cross entropy of rows of logits, against probabilities or class indices. torch's default reduction is "mean".

    Args:
        sparse: whether labels are class indices.
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError: labels have a dtype other than those of `construct`.
        ValueError: shapes don't fit, or a label isn't below C.
    """

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.sparse = checks.of_type(sparse, "sparse", bool, of="SoftmaxCrossEntropyWithLogits")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Logits (N, C), and labels: floating-point (N, C), e.g. one-hot; if sparse, int32 or int64 (N,).

        A negative label gives a loss of 0. The mean is over all rows.
        """
        if self.sparse:
            return self.get_loss(cross_entropy.sparse_rows(logits, labels, of=self.cls_name))
        return self.get_loss(cross_entropy.soft_rows(logits, labels, of=self.cls_name))

    def extend_repr(self) -> str:
        """The arguments."""
        return f"sparse={self.sparse}, reduction={self.reduction}"


class NLLLoss(LossBase):
    """Minus the logarithm of the probability of a class: see `ops.nll_loss`.

    Args:
        weight: (C,), a weight for each class.
        ignore_index: a label to ignore.
        reduction: "mean" (the sum divided by the weights of all labels that aren't ignored), "sum" or "none".
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = class_weight(weight, of="NLLLoss")
        self.ignore_index = checks.of_type(ignore_index, "ignore_index", int, of="NLLLoss")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Logarithms of probabilities (N, C, ...), and int32 or int64 class indices (N, ...)."""
        return cross_entropy.nll_loss(logits, labels, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(LossBase):
    """Cross entropy of logits, against class indices or probabilities: see `ops.cross_entropy`.

    Args:
        weight: (C,), a weight for each class.
        ignore_index: a class index to ignore.
        reduction: "mean" (the sum divided by the weights of all labels that aren't ignored), "sum" or "none".
        label_smoothing: the fraction of the target that is spread uniformly over all classes, in [0, 1].
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.weight = class_weight(weight, of="CrossEntropyLoss")
        self.ignore_index = checks.of_type(ignore_index, "ignore_index", int, of="CrossEntropyLoss")
        self.label_smoothing = checks.in_range(label_smoothing, "label_smoothing", "[0, 1]", of="CrossEntropyLoss")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Logits (N, C, ...), and int32 or int64 class indices (N, ...) or probabilities (N, C, ...)."""
        return cross_entropy.cross_entropy(
            logits, labels, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


def class_weight(weight: Any, *, of: str) -> Any:
    """Return the class weights (C,), or None, if they are valid; otherwise raise `TypeError` or `ValueError`."""
    if weight is None:
        return None
    require_floating(checks.of_type(weight, "weight", Tensor, of=of), "weight", of=of)
    if weight.ndim != 1:
        raise ValueError(f"For '{of}', 'weight' must have shape (C,), but got {weight.shape}")
    return weight
