"""Optimizers in the formulas of `torch.optim`, and with its argument names, for networks that come from torch.

Those of `runtime.nn` have MindSpore's formulas, which differ: where eps stands in Adam, what weight decay spares.
"""

from __future__ import annotations

from .adam import Adam, AdamW
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]
