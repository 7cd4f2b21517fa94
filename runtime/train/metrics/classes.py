"""Classification metrics: accuracy, precision, recall, confusion."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from .metric import Array, EvaluationBase, Metric, flag, rearrange_inputs, without_one_hot

TINY = float(np.finfo(np.float64).tiny)
"""Added to denominators, so that quotients stay finite."""


class Accuracy(EvaluationBase):
    """The fraction of correct samples; for "multilabel", of samples whose labels are all correct.

    Args:
        eval_type: "classification" or "multilabel"; see `EvaluationBase`.
    """

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type)
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self._right, self._total, self._class_num = 0, 0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add predictions and true labels of a batch."""
        predicted, true = self._check_inputs(inputs)
        of_classes = self._type == "classification"
        right = predicted.argmax(axis=1) == true if of_classes else (predicted == true).all(axis=1)
        self._right += int(right.sum())
        self._total += right.size

    def eval(self) -> float:
        """Return the fraction of correct samples."""
        self._require_batches(self._total)
        return self._right / self._total


class TopKCategoricalAccuracy(Metric):
    """The fraction of samples whose class is among the `k` classes with the highest scores.

    Args:
        k: at least 1.

    Inputs of `update`: scores (N, C), and classes (N,) or one-hot (N, C).
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = checks.of_type(k, "k", int, of=type(self).__name__)
        if k < 1:
            raise ValueError(f"For '{type(self).__name__}', 'k' must be at least 1, but got {k}")
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self._right, self._total = 0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add scores and classes of a batch."""
        scores, true = self._arrays(inputs, "predicted", "true")
        true = without_one_hot(scores, true)
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        self._right += int((best == true.reshape(-1, 1)).sum())
        self._total += len(scores)

    def eval(self) -> float:
        """Return the fraction of correct samples."""
        self._require_batches(self._total)
        return self._right / self._total


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with k = 1."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """`TopKCategoricalAccuracy` with k = 5."""

    def __init__(self) -> None:
        super().__init__(5)


class _Positives(EvaluationBase):
    """Counts true, predicted and actual positives: by class, for "multilabel" by sample."""

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type)
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self._class_num = 0
        self._both: list[Array] = []
        self._predicted: list[Array] = []
        self._actual: list[Array] = []

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add predictions and true labels of a batch."""
        predicted, true = self._check_inputs(inputs)
        classes = self._class_num
        if self._type == "classification":
            p, t = (np.eye(classes)[labels.reshape(-1)] for labels in (predicted.argmax(axis=1), true))
        else:
            p, t = (labels.swapaxes(0, 1).reshape(classes, -1) for labels in (predicted, true))
        for counts, marks in ((self._both, p * t), (self._predicted, p), (self._actual, t)):
            counts[:] = [self._counts([*counts, marks.sum(axis=0)])]

    def _counts(self, batches: list[Array]) -> Array:
        """Combine batches: sum the counts of classes, concatenate those of samples."""
        return np.sum(batches, axis=0) if self._type == "classification" else np.concatenate(batches)

    def _quotient(self) -> Array:
        raise NotImplementedError

    def eval(self, average: bool = False) -> Any:
        """Return an array with a value for each class (for "multilabel": each sample), or their mean."""
        of = type(self).__name__
        self._require_batches(self._class_num)
        quotient = self._quotient()
        return quotient.mean() if flag(average, "average", of=of) else quotient


class Precision(_Positives):
    """The fraction of predicted positives that are positive.

    Args:
        eval_type: "classification" or "multilabel"; see `EvaluationBase`.
    """

    def _quotient(self) -> Array:
        return self._counts(self._both) / (self._counts(self._predicted) + TINY)


class Recall(_Positives):
    """The fraction of positives that are predicted.

    Args:
        eval_type: "classification" or "multilabel"; see `EvaluationBase`.
    """

    def _quotient(self) -> Array:
        return self._counts(self._both) / (self._counts(self._actual) + TINY)


class Fbeta(_Positives):
    """The weighted harmonic mean of `Precision` and `Recall`, by class.

        (1 + beta^2) * both / (beta^2 * actual + predicted)

    Args:
        beta: the weight of the recall relative to the precision, above 0.
    """

    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = checks.in_range(beta, "beta", "(0, inf)", of=type(self).__name__)

    def _quotient(self) -> Array:
        square = self.beta**2
        both, predicted, actual = (self._counts(counts) for counts in (self._both, self._predicted, self._actual))
        return np.asarray((1.0 + square) * both / (square * actual + predicted + TINY))


class F1(Fbeta):
    """`Fbeta` with beta 1."""

    def __init__(self) -> None:
        super().__init__(1.0)


class ConfusionMatrix(Metric):
    """The number of samples of each class (rows) that are predicted as each class (columns).

    Args:
        num_classes: the number of classes.
        normalize: "no_norm": counts; "target", "prediction", "all": counts divided by the sums of rows, of columns or
            of all elements.
        threshold: the lowest score that counts as class 1, if there is one score for each sample.

    Inputs of `update`: classes or scores (N, ...), or scores (N, C, ...); and classes (N, ...).
    """

    def __init__(self, num_classes: int, normalize: str = "no_norm", threshold: float = 0.5) -> None:
        super().__init__()
        of = type(self).__name__
        self.num_classes = checks.of_type(num_classes, "num_classes", int, of=of)
        self.normalize = checks.one_of(normalize, "normalize", ("target", "prediction", "all", "no_norm"), of=of)
        self.threshold = checks.of_type(threshold, "threshold", float, of=of)
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self.confusion_matrix: Array = np.zeros((self.num_classes, self.num_classes))
        self._batches = 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add predictions and classes of a batch."""
        predicted, true = self._arrays(inputs, "predicted", "true")
        if predicted.ndim == true.ndim + 1:
            predicted = predicted.argmax(axis=1)
        if predicted.shape != true.shape:
            raise ValueError(
                f"For 'ConfusionMatrix.update', needed predictions (N, ...) or (N, C, ...) and classes (N, ...), but "
                f"got {predicted.shape} and {true.shape}"
            )
        if predicted.dtype.kind == "f":
            predicted = predicted >= self.threshold
        pairs = [labels.reshape(-1).astype(int) for labels in (true, predicted)]
        if any(labels.size and not 0 <= labels.min() <= labels.max() < self.num_classes for labels in pairs):
            raise ValueError(f"For 'ConfusionMatrix.update', classes must be in [0, {self.num_classes})")
        np.add.at(self.confusion_matrix, tuple(pairs), 1)
        self._batches += 1

    def eval(self) -> Array:
        """Return the matrix, (num_classes, num_classes); 0 where the divisor is 0."""
        self._require_batches(self._batches)
        counts = self.confusion_matrix.copy()
        if self.normalize == "no_norm":
            return counts
        axis = {"target": 1, "prediction": 0, "all": None}[self.normalize]
        sums = counts.sum(axis=axis, keepdims=True)
        return counts / np.where(sums == 0, 1.0, sums)
