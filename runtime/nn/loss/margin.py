"""Margin losses: on scores of classes, on distances, or on the distance from a decision boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import checks
from ...functional import margin_losses
from ...functional.distances import pairwise_distance
from ...functional.losses import comparable_pair
from ...ops import elementwise
from .loss import LossBase


class SoftMarginLoss(LossBase):
    """log(1 + exp(-labels * logits)), reduced.

    Args:
        reduction: "mean", "sum" or "none".
    """

    def construct(self, logits: Any, labels: Any) -> Any:
        """Two tensors of the same shape, the labels 1 or -1."""
        return margin_losses.soft_margin_loss(logits, labels, self.reduction)


class HingeEmbeddingLoss(LossBase):
    """A distance where the label is 1, max(0, margin - distance) where it is -1, reduced.

    Args:
        margin: the required distance of dissimilar pairs.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = checks.of_type(margin, "margin", (int, float), of="HingeEmbeddingLoss")

    def construct(self, logits: Any, labels: Any) -> Any:
        """Distances, and labels 1 or -1; they broadcast."""
        return margin_losses.hinge_embedding_loss(logits, labels, self.margin, self.reduction)


class MarginRankingLoss(LossBase):
    """max(0, -target * (input1 - input2) + margin), reduced.

    Args:
        margin: the required difference.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = checks.of_type(margin, "margin", (int, float), of="MarginRankingLoss")

    def construct(self, input1: Any, input2: Any, target: Any) -> Any:
        """Scores, and 1 where the first should be higher, -1 where the second should."""
        return margin_losses.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class CosineEmbeddingLoss(LossBase):
    """1 - cosine where the label is 1, max(0, cosine - margin) where it is -1: see `ops.cosine_embedding_loss`.

    Args:
        margin: in [-1, 1], else `ValueError`.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = checks.in_range(margin, "margin", "[-1, 1]", of="CosineEmbeddingLoss")

    def construct(self, logits_x1: Any, logits_x2: Any, labels: Any) -> Any:
        """Two tensors (N, D), and labels (N,) of 1 or -1."""
        return margin_losses.cosine_embedding_loss(logits_x1, logits_x2, labels, self.margin, self.reduction)


class TripletMarginLoss(LossBase):
    """max(0, d(x, positive) - d(x, negative) + margin): see `ops.triplet_margin_loss`.

    Args:
        p: d is the p-norm of the difference.
        swap: whether d(positive, negative) replaces d(x, negative) where it is smaller.
        eps: keeps the gradient of the norm finite.
        reduction: "mean", "sum" or "none".
        margin: the required difference of the distances to negative and positive.
    """

    def __init__(
        self, p: float = 2, swap: bool = False, eps: float = 1e-6, reduction: str = "mean", margin: float = 1.0
    ) -> None:
        super().__init__(reduction)
        self.p = checks.of_type(p, "p", (int, float), of="TripletMarginLoss")
        self.swap = checks.of_type(swap, "swap", bool, of="TripletMarginLoss")
        self.eps = eps
        self.margin = margin

    def construct(self, x: Any, positive: Any, negative: Any, margin: Any = 1.0) -> Any:
        """Three tensors (N, D), and a margin that is used if the Cell has the default one."""
        margin = margin if self.margin == 1.0 else self.margin
        return margin_losses.triplet_margin_loss(
            x, positive, negative, margin, self.p, self.eps, self.swap, self.reduction
        )


class TripletMarginWithDistanceLoss(LossBase):
    """`TripletMarginLoss` with any distance.

    Args:
        distance_function: takes two tensors; None: the norm of their difference along the last axis.
        swap: whether d(positive, negative) replaces d(x, negative) where it is smaller.
        reduction: "mean", "sum" or "none".
        margin: the required difference of the distances to negative and positive.
    """

    def __init__(
        self,
        distance_function: Callable[[Any, Any], Any] | None = None,
        swap: bool = False,
        reduction: str = "mean",
        margin: float = 1.0,
    ) -> None:
        super().__init__(reduction)
        self.distance_function = pairwise_distance if distance_function is None else distance_function
        self.swap = checks.of_type(swap, "swap", bool, of="TripletMarginWithDistanceLoss")
        self.margin = checks.of_type(margin, "margin", (int, float), of="TripletMarginWithDistanceLoss")

    def construct(self, x: Any, positive: Any, negative: Any) -> Any:
        """Three tensors of the same shape."""
        x, positive = comparable_pair(x, positive, ("x", "positive"), of=self.cls_name)
        x, negative = comparable_pair(x, negative, ("x", "negative"), of=self.cls_name)
        near, far = self.distance_function(x, positive), self.distance_function(x, negative)
        if self.swap:
            far = elementwise.minimum(far, self.distance_function(positive, negative))
        return self.get_loss(elementwise.clamp(near - far + self.margin, minimum=0.0))


class MultiMarginLoss(LossBase):
    """The amount by which the score of a class fails to exceed the others by a margin: see `ops.multi_margin_loss`.

    Args:
        p: 1 or 2.
        margin: the required difference.
        reduction: "mean", "sum" or "none".
        weight: (C,), a factor for the rows of each class.
    """

    def __init__(self, p: int = 1, margin: float = 1.0, reduction: str = "mean", weight: Any = None) -> None:
        super().__init__(reduction)
        self.p = checks.one_of(p, "p", (1, 2), of="MultiMarginLoss")
        self.margin = checks.of_type(margin, "margin", (int, float), of="MultiMarginLoss")
        self.weight = weight

    def construct(self, x: Any, target: Any, weight: Any = None) -> Any:
        """Scores (N, C), class indices (N,), and weights that are used if the Cell was created without any."""
        weight = weight if self.weight is None else self.weight
        return margin_losses.multi_margin_loss(x, target, self.p, self.margin, weight, self.reduction)


class MultilabelMarginLoss(LossBase):
    """The amount by which the scores of classes fail to exceed the others by 1: see `ops.multilabel_margin_loss`.

    Args:
        reduction: "mean", "sum" or "none".
    """

    def construct(self, x: Any, target: Any) -> Any:
        """Scores (N, C), and class indices (N, C) that end at the first -1 of a row."""
        return margin_losses.multilabel_margin_loss(x, target, self.reduction)


class MultiLabelSoftMarginLoss(LossBase):
    """Binary cross entropy of each class, averaged over the classes: see `ops.multilabel_soft_margin_loss`.

    Args:
        weight: a factor for each class; broadcasts.
        reduction: "mean", "sum" or "none".
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = weight

    def construct(self, x: Any, target: Any) -> Any:
        """Two tensors (N, C), the target 1 or 0."""
        return margin_losses.multilabel_soft_margin_loss(x, target, self.weight, self.reduction)
