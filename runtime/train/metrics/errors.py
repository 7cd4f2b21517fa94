"""Metrics of errors, losses and perplexity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import checks
from .metric import Array, Metric, rearrange_inputs


class _Error(Metric):
    """The sum of `_errors` over all elements, divided by the number of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self._sum, self._samples = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add predictions and true values (N, ...) of a batch; `ValueError` if their sizes differ."""
        predicted, true = self._arrays(inputs, "predicted", "true")
        if predicted.size != true.size or true.ndim == 0:
            raise ValueError(
                f"For '{type(self).__name__}.update', needed as many predictions as true values (N, ...), but got "
                f"{predicted.shape} and {true.shape}"
            )
        self._sum += float(self._errors(true.reshape(predicted.shape) - predicted).sum())
        self._samples += true.shape[0]

    def _errors(self, error: Array) -> Array:
        raise NotImplementedError

    def eval(self) -> float:
        """Return the mean over the samples of the sum of their errors."""
        self._require_batches(self._samples)
        return self._sum / self._samples


class MAE(_Error):
    """The sum of absolute differences, divided by the number of samples (not of elements)."""

    def _errors(self, error: Array) -> Array:
        return np.abs(error)


class MSE(_Error):
    """The sum of squared differences, divided by the number of samples (not of elements)."""

    def _errors(self, error: Array) -> Array:
        return error * error


class Loss(Metric):
    """The mean of the losses of batches; a vector counts as its mean."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self._sum, self._batches = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add the loss of a batch, of shape () or (N,); else `ValueError`."""
        (loss,) = self._arrays(inputs, "loss")
        if loss.ndim > 1:
            raise ValueError(f"For 'Loss.update', the loss must be a number or a vector, but got shape {loss.shape}")
        self._sum += float(loss.mean())
        self._batches += 1

    def eval(self) -> float:
        """Return the mean."""
        self._require_batches(self._batches)
        return self._sum / self._batches


class Perplexity(Metric):
    """The exponential of the mean of -log(p), where p is the probability of the true class.

    Args:
        ignore_label: a class whose samples are ignored, or None.

    Inputs of `update`: probabilities (N, C), or (..., C), and classes (...,).
    """

    def __init__(self, ignore_label: int | None = None) -> None:
        super().__init__()
        self.ignore_label = ignore_label
        if ignore_label is not None:
            checks.of_type(ignore_label, "ignore_label", int, of="Perplexity")
        self.clear()

    def clear(self) -> None:
        """Reset the metric."""
        self._sum, self._samples = 0.0, 0

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add probabilities (..., C) and classes (...) of a batch; `RuntimeError` if their shapes don't fit."""
        probabilities, true = self._arrays(inputs, "predicted", "true")
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
        """Return the perplexity."""
        self._require_batches(self._samples)
        return math.exp(self._sum / self._samples)
