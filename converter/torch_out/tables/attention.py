"""Attention."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from ...rows import Row
from ..calls import functions
from .table import Context, pass_on, torch_form


@torch_form("scaled_dot_product_attention")
def _(
    context: Context, q: Any, k: Any, v: Any, mask: Any, dropout_mask: Any, *,
    causal: bool, scale: float | None, dropout: float,
) -> Any:  # fmt: skip
    """torch's own function takes neither a dropout mask, nor a mask together with causality."""
    if dropout_mask is None and (mask is None or not causal):
        return context.call(F.scaled_dot_product_attention, q, k, v, mask, 0.0, causal, scale=scale)
    y, _ = attention_with_weights(context, q, k, v, mask, dropout_mask, causal=causal, scale=scale, dropout=dropout)
    return y


@torch_form("attention_with_weights")
def attention_with_weights(
    context: Context, q: Any, k: Any, v: Any, mask: Any, dropout_mask: Any, *,
    causal: bool, scale: float | None, dropout: float,
) -> tuple[Any, Any]:  # fmt: skip
    """The result, and the weights before dropout."""
    weights = context.call(functions.attention_weights, q, k, mask, causal, scale)
    if dropout_mask is None:
        return weights @ v, weights
    return weights * dropout_mask * (0.0 if dropout == 1.0 else 1.0 / (1.0 - dropout)) @ v, weights


ROWS: dict[str, Row] = {
    "attention_weights": (functions.attention_weights, "q, k, mask, causal, scale"),
}
pass_on(ROWS)
