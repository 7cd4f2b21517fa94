"""Cells that wrap a network for training and evaluation."""

from __future__ import annotations

from .cell_wrapper import ForwardValueAndGrad, TrainOneStepCell, WithEvalCell, WithGradCell, WithLossCell
from .loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell, TrainOneStepWithLossScaleCell

__all__ = [
    "DynamicLossScaleUpdateCell",
    "FixedLossScaleUpdateCell",
    "ForwardValueAndGrad",
    "TrainOneStepCell",
    "TrainOneStepWithLossScaleCell",
    "WithEvalCell",
    "WithGradCell",
    "WithLossCell",
]
