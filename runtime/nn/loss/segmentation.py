"""Losses for classes of very different frequency: focal and Dice losses."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.tensor import Tensor
from ...functional.losses import comparable_pair
from ...functional.operands import as_tensor, require_floating
from ...ir.dims import product
from ...ir.types import INT64
from ...ops import activation, elementwise, indexing, loss, shaping
from ...ops.reduction import reduce_mean, reduce_sum
from ..cell import Cell
from ..layer.activation import get_activation
from .classification import class_weight
from .loss import LossBase


class FocalLoss(LossBase):
    """-(1 - p)**gamma * log(p), where p is the softmax probability of the class (Lin et al. 2017).

    Args:
        weight: (C,), a factor for each class.
        gamma: the focusing parameter; the higher it is, the less easy examples count.
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: shapes don't fit, or a class index is out of range.
    """

    def __init__(self, weight: Any = None, gamma: float = 2.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = class_weight(weight, of="FocalLoss")
        self.gamma = float(checks.of_type(gamma, "gamma", (int, float), of="FocalLoss"))

    def construct(self, logits: Any, labels: Any) -> Any:
        """Logits (N, C), (N, C, L) or (N, C, H, W), and labels of as many dimensions: class indices (N, 1, ...), or a
        factor for each class (N, C, ...).

        The losses of each row (with factors, of each row and class) are averaged before the reduction.
        """
        logits, labels = require_floating(logits, "logits", of="FocalLoss"), as_tensor(labels, "labels", of="FocalLoss")
        _check_focal(tuple(logits.shape), tuple(labels.shape))
        rows, classes, *places = logits.shape
        one_class = labels.shape[1] == 1
        logits = shaping.reshape(logits, shape=(rows, classes, product(places)))
        labels = shaping.reshape(labels, shape=(rows, labels.shape[1], product(places)))
        log_p = activation.log_softmax(logits, axis=1)
        weighted = log_p if self.weight is None else log_p * shaping.reshape(self.weight, shape=(1, classes, 1))
        if one_class:
            at = loss.class_index(elementwise.cast(labels, dtype=INT64), classes=classes)
            log_p, weighted = indexing.gather(log_p, at, axis=1), indexing.gather(weighted, at, axis=1)
        losses = -(elementwise.pow(1.0 - elementwise.exp(log_p), self.gamma) * weighted)
        if one_class:
            return self.get_loss(reduce_mean(losses, axes=(1, 2)))
        return self.get_loss(reduce_mean(losses * labels, axes=(2,)))


def _check_focal(logits: tuple[Any, ...], labels: tuple[Any, ...]) -> None:
    rank = len(logits)
    if not 2 <= rank <= 4 or len(labels) != rank or (labels[0], *labels[2:]) != (logits[0], *logits[2:]):
        raise ValueError(
            f"For 'FocalLoss', 'logits' and 'labels' must be (N, C, ...) of 2 to 4 dimensions, but got {logits} and "
            f"{labels}"
        )
    if logits[1] == 1 or labels[1] not in (1, logits[1]):
        raise ValueError(
            f"For 'FocalLoss', 'logits' must have several classes and 'labels' 1 or as many, but got {logits[1]} and "
            f"{labels[1]}"
        )


class DiceLoss(LossBase):
    """1 - 2 * sum(x * y) / (sum(x * x) + sum(y * y) + smooth) (Milletari et al. 2016).

    Args:
        smooth: keeps the quotient finite; above 0, else `ValueError`.
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        super().__init__()
        self.smooth = checks.in_range(smooth, "smooth", "(0, inf)", of="DiceLoss")

    def construct(self, logits: Any, label: Any) -> Any:
        """Two tensors of the same shape (else `ValueError`), e.g. probabilities and 0 or 1; returns a 0-d tensor."""
        x, y = comparable_pair(logits, label, ("logits", "label"), of="DiceLoss")
        union = reduce_sum(x * x) + reduce_sum(y * y) + self.smooth
        return 1.0 - reduce_sum(x * y) * 2.0 / union

    def extend_repr(self) -> str:
        """smooth."""
        return f"smooth={self.smooth}"


class MultiClassDiceLoss(LossBase):
    """The mean over the classes of the `DiceLoss` of each class.

    Args:
        weights: (C, D), the factors of each class; (D,) is then the shape of the loss.
        ignore_indiex: a class that is left out.
        activation: the Cell, or its name, that is applied to the logits; None for no activation.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: shapes don't fit.
        KeyError: no activation has that name.
    """

    def __init__(self, weights: Any = None, ignore_indiex: int | None = None, activation: Any = "softmax") -> None:
        super().__init__()
        of = "MultiClassDiceLoss"
        self.binarydiceloss = DiceLoss()
        if weights is not None and checks.of_type(weights, "weights", Tensor, of=of).ndim != 2:
            raise ValueError(f"For '{of}', 'weights' must have shape (C, D), but got {weights.shape}")
        self.weights = weights
        self.ignore_indiex = (
            None if ignore_indiex is None else checks.of_type(ignore_indiex, "ignore_indiex", int, of=of)
        )
        if activation is not None:
            checks.of_type(activation, "activation", (str, Cell), of=of)
        self.activation = get_activation(activation, of) if isinstance(activation, str) else activation

    def construct(self, logits: Any, label: Any) -> Any:
        """Two tensors (N, C, ...) of the same shape; returns a 0-d tensor unless there are weights."""
        logits, label = comparable_pair(logits, label, ("logits", "label"), of="MultiClassDiceLoss")
        classes = label.shape[1] if label.ndim > 1 else 0
        if not classes or (self.weights is not None and self.weights.shape[0] != classes):
            raise ValueError(
                "For 'MultiClassDiceLoss', 'logits' must be (N, C, ...) and 'weights' (C, D), but got "
                f"{tuple(logits.shape)} and {None if self.weights is None else self.weights.shape}"
            )
        logits = logits if self.activation is None else self.activation(logits)
        total: Any = 0.0
        for number in range(classes):
            if number != self.ignore_indiex:
                loss = self.binarydiceloss(logits[:, number], label[:, number])
                total = total + (loss if self.weights is None else loss * self.weights[number])
        return total / classes
