"""The operators as people write them: functions of tensors, from which the other spellings are made."""

from __future__ import annotations

from ..common.tensor import Tensor
from . import activations, arithmetic, cross_entropy, dropout, losses, margin_losses, rectifiers
from .spelling import attach_methods, public_names

__all__ = ["NAMES", "activations", "arithmetic", "cross_entropy", "dropout", "losses", "margin_losses", "rectifiers"]

NAMES = public_names()
"""Every function and operator object that `cellbridge.runtime.ops` offers, by name."""

attach_methods(Tensor)
