"""The loss scale managers of `runtime.amp`, under the path that scripts import them from."""

from __future__ import annotations

from ..amp.managers import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager

__all__ = ["DynamicLossScaleManager", "FixedLossScaleManager", "LossScaleManager"]
