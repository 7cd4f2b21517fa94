"""The training loop: `Model` with its callbacks, metrics and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_getattr

if TYPE_CHECKING:
    from .callbacks import (
        Callback,
        CheckpointConfig,
        LossMonitor,
        ModelCheckpoint,
        RunContext,
        TimeMonitor,
    )
    from .metrics import (
        F1,
        MAE,
        MSE,
        Accuracy,
        ConfusionMatrix,
        Fbeta,
        Loss,
        Metric,
        Perplexity,
        Precision,
        Recall,
        Top1CategoricalAccuracy,
        Top5CategoricalAccuracy,
        TopKCategoricalAccuracy,
        get_metric_fn,
        names,
        rearrange_inputs,
    )
    from .model import Model
    from .serialization import load_checkpoint, load_param_into_net, save_checkpoint

__all__ = [
    "F1",
    "MAE",
    "MSE",
    "Accuracy",
    "Callback",
    "CheckpointConfig",
    "ConfusionMatrix",
    "Fbeta",
    "Loss",
    "LossMonitor",
    "Metric",
    "Model",
    "ModelCheckpoint",
    "Perplexity",
    "Precision",
    "Recall",
    "RunContext",
    "TimeMonitor",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "get_metric_fn",
    "load_checkpoint",
    "load_param_into_net",
    "names",
    "rearrange_inputs",
    "save_checkpoint",
]

_NAMES = {  # by module
    "callbacks": "Callback CheckpointConfig LossMonitor ModelCheckpoint RunContext TimeMonitor",
    "metrics": "F1 MAE MSE Accuracy ConfusionMatrix Fbeta Loss Metric Perplexity Precision Recall "
    "Top1CategoricalAccuracy Top5CategoricalAccuracy TopKCategoricalAccuracy get_metric_fn names rearrange_inputs",
    "model": "Model",
    "serialization": "load_checkpoint load_param_into_net save_checkpoint",
}

__getattr__ = lazy_getattr(__name__, {name: module for module, names_ in _NAMES.items() for name in names_.split()})


def __dir__() -> list[str]:
    return list(__all__)
