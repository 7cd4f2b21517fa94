"""Metrics of numbers: errors, losses, perplexity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import checks
from .metric import Array, Metric, rearrange_inputs


class _Error(Metric):
    """The sum of what `_measured` gives, over the number of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._samples = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take in predictions and truth (N, ...) of a batch; `ValueError` if one has more than the other."""
        predicted, true = self._given(inputs, "predicted", "true")
        if predicted.size != true.size or true.ndim == 0:
            raise ValueError(
                f"For '{type(self).__name__}.update', needed as many predictions as true values (N, ...), but got "
                f"{predicted.shape} and {true.shape}"
            )
        self._sum += float(self._measured(true.reshape(predicted.shape) - predicted).sum())
        self._samples += true.shape[0]

    def _measured(self, error: Array) -> Array:
        raise NotImplementedError

    def eval(self) -> float:
        """The sum of the errors of a sample, on average."""
        self._require_batches(self._samples)
        return self._sum / self._samples


class MAE(_Error):
    """The sum of absolute differences, over the number of samples (not of elements)."""

    def _measured(self, error: Array) -> Array:
        return np.abs(error)


class MSE(_Error):
    """The sum of squared differences, over the number of samples (not of elements)."""

    def _measured(self, error: Array) -> Array:
        return error * error


class Loss(Metric):
    """The mean of the losses of batches, each a number or a vector, of which the mean counts."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._batches = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take in the loss of a batch, () or (N,); else `ValueError`."""
        (loss,) = self._given(inputs, "loss")
        if loss.ndim > 1:
            raise ValueError(f"For 'Loss.update', the loss must be a number or a vector, but got shape {loss.shape}")
        self._sum += float(loss.mean())
        self._batches += 1

    def eval(self) -> float:
        """The mean."""
        self._require_batches(self._batches)
        return self._sum / self._batches


class Perplexity(Metric):
    """The exponential of the mean of -log(p), p the probability given to what is true.

    Args:
        ignore_label: a class whose samples don't count, or None.

    Inputs of `update`: probabilities (N, C), or (..., C), and classes (...,).
    """

    def __init__(self, ignore_label: int | None = None) -> None:
        super().__init__()
        self.ignore_label = ignore_label
        if ignore_label is not None:
            checks.of_type(ignore_label, "ignore_label", int, of="Perplexity")
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self._sum, self._samples = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take in probabilities (..., C) and classes (...) of a batch; `RuntimeError` if they don't fit."""
        probabilities, true = self._given(inputs, "predicted", "true")
        if probabilities.ndim < 2 or probabilities.size != true.size * probabilities.shape[-1]:
            raise RuntimeError(
                f"For 'Perplexity.update', needed probabilities (..., C) and classes (...), but got "
                f"{probabilities.shape} and {true.shape}"
            )
        classes = true.reshape(-1).astype(int)
        rows = probabilities.reshape(len(classes), -1)
        counted = np.full(classes.shape, True) if self.ignore_label is None else classes != self.ignore_label
        p = rows[np.nonzero(counted)[0], classes[counted]]
        self._sum -= float(np.log(np.maximum(1e-10, p)).sum())
        self._samples += int(counted.sum())

    def eval(self) -> float:
        """The perplexity."""
        self._require_batches(self._samples)
        return math.exp(self._sum / self._samples)
