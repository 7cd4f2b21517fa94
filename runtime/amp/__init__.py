"""Mixed-precision training: loss scales, and networks that compute in half precision where that is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_getattr

if TYPE_CHECKING:
    from ..nn.wrap.loss_scalers import DynamicLossScaler, LossScaler, StaticLossScaler, all_finite
    from .managers import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
    from .mixed_precision import auto_mixed_precision, custom_mixed_precision, get_black_list, get_white_list
    from .training import build_train_network

__all__ = [
    "DynamicLossScaleManager",
    "DynamicLossScaler",
    "FixedLossScaleManager",
    "LossScaleManager",
    "LossScaler",
    "StaticLossScaler",
    "all_finite",
    "auto_mixed_precision",
    "build_train_network",
    "custom_mixed_precision",
    "get_black_list",
    "get_white_list",
]

_NAMES = {
    "managers": "DynamicLossScaleManager FixedLossScaleManager LossScaleManager",
    "mixed_precision": "auto_mixed_precision custom_mixed_precision get_black_list get_white_list",
    ".nn.wrap.loss_scalers": "DynamicLossScaler LossScaler StaticLossScaler all_finite",
    "training": "build_train_network",
}

__getattr__ = lazy_getattr(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})
