"""Attention."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from .. import functions
from ..table import Context, torch_form


@torch_form("attention_weights")
def _(context: Context, q: Any, k: Any, mask: Any, *, causal: bool, scale: float | None) -> Any:
    return context.call(functions.attention_weights, q, k, mask, causal, scale)


@torch_form("scaled_dot_product_attention")
def _(
    context: Context,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    dropout_mask: Any,
    *,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> Any:
    """torch's own takes no draws, and not a mask and causality together."""
    if dropout_mask is None and (mask is None or not causal):
        return context.call(F.scaled_dot_product_attention, q, k, v, mask, 0.0, causal, scale=scale)
    weights = context.call(functions.attention_weights, q, k, mask, causal, scale)
    return _dropped(weights, dropout_mask, dropout) @ v


@torch_form("attention_with_weights")
def _(
    context: Context,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    dropout_mask: Any,
    *,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> Any:
    weights = context.call(functions.attention_weights, q, k, mask, causal, scale)
    return _dropped(weights, dropout_mask, dropout) @ v, weights


def _dropped(weights: Any, dropout_mask: Any, dropout: float) -> Any:
    """The weights that are kept, scaled by their share."""
    if dropout_mask is None:
        return weights
    return weights * dropout_mask * (0.0 if dropout == 1.0 else 1.0 / (1.0 - dropout))
