"""The managers of loss scales, under the name by which scripts import them; they stand in `runtime.amp`."""

from __future__ import annotations

from ..amp.managers import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager

__all__ = ["DynamicLossScaleManager", "FixedLossScaleManager", "LossScaleManager"]
