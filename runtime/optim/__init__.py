"""Optimizers with the formulas and argument names of `torch.optim`, for networks that come from torch.

The optimizers of `runtime.nn` have MindSpore's formulas, which differ in where Adam adds eps and in which Parameters
are exempt from weight decay.
"""

from __future__ import annotations

from .adam import Adam, AdamW
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]
