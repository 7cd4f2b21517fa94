"""Metrics over many batches: accuracy, errors, losses; and their lookup by name."""

from __future__ import annotations

from typing import Any

from .classes import (
    F1,
    Accuracy,
    ConfusionMatrix,
    Fbeta,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from .errors import MAE, MSE, Loss, Perplexity
from .metric import Metric, rearrange_inputs

__all__ = [
    "F1",
    "MAE",
    "MSE",
    "Accuracy",
    "ConfusionMatrix",
    "Fbeta",
    "Loss",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "get_metric_fn",
    "get_metrics",
    "names",
    "rearrange_inputs",
]

BY_NAME: dict[str, type[Metric]] = {
    "accuracy": Accuracy,
    "acc": Accuracy,
    "precision": Precision,
    "recall": Recall,
    "F1": F1,
    "topk": TopKCategoricalAccuracy,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "mae": MAE,
    "mse": MSE,
    "loss": Loss,
    "perplexity": Perplexity,
    "confusion_matrix": ConfusionMatrix,
}


def names() -> list[str]:
    """The names of all metrics, in alphabetical order."""
    return sorted(BY_NAME)


def get_metric_fn(name: str, *args: Any, **kwargs: Any) -> Metric:
    """Create the metric of that name with the other arguments; `KeyError` if there is none."""
    if name not in BY_NAME:
        raise KeyError(f"For 'get_metric_fn', the name must be one of {names()}, but got {name!r}")
    return BY_NAME[name](*args, **kwargs)


def get_metrics(metrics: Any) -> dict[str, Metric] | None:
    """Return metrics by name from a dict of metrics or a set of names; None for None.

    Raises:
        TypeError: `metrics` is neither, or the dict has other values.
        KeyError: a name is unknown.
    """
    if metrics is None:
        return None
    if isinstance(metrics, dict):
        for name, metric in metrics.items():
            if not isinstance(name, str) or not isinstance(metric, Metric):
                raise TypeError(f"For 'get_metrics', 'metrics' must hold Metrics by name, but got {name!r}: {metric!r}")
        return metrics
    if isinstance(metrics, set):
        return {name: get_metric_fn(name) for name in metrics}
    raise TypeError(f"For 'get_metrics', 'metrics' must be a dict or a set, but got {type(metrics).__name__}")
