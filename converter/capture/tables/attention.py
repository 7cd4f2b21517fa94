"""ATen attention."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import BOOL
from ....runtime.ops import attention as ops
from ....runtime.ops import shaping
from ....runtime.ops.common import broadcast_shapes
from ....runtime.tracing import SymbolicTensor
from .random import dropout_mask
from .table import Context, aten, cast


@aten("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    context: Context, query: SymbolicTensor, key: SymbolicTensor, value: SymbolicTensor, attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> SymbolicTensor:  # fmt: skip
    """scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.,
    bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
    """
    if enable_gqa:
        key, value = _repeat_heads(key, query), _repeat_heads(value, query)
    if attn_mask is not None and attn_mask.dtype != BOOL:
        attn_mask = cast(attn_mask, query.dtype)
    weights = (*broadcast_shapes(query.shape[:-2], key.shape[:-2]), query.shape[-2], key.shape[-2])
    draws = dropout_mask(context, weights, query.dtype, dropout_p)
    y: SymbolicTensor = ops.scaled_dot_product_attention(
        query, key, value, attn_mask, draws, causal=is_causal, scale=scale, dropout=0.0 if draws is None else dropout_p
    )
    return y * 0.0 if dropout_p == 1.0 else y


def _repeat_heads(x: SymbolicTensor, query: SymbolicTensor) -> SymbolicTensor:
    """Keys or values, (..., heads, length, features), with each head repeated for a group of the query's heads."""
    *batch, heads, length, features = x.shape
    times = query.shape[-3] // heads
    if times == 1:
        return x
    single = shaping.reshape(x, shape=(*batch, heads, 1, length, features))
    repeated = shaping.expand(single, shape=(*batch, heads, times, length, features))
    result: SymbolicTensor = shaping.reshape(repeated, shape=(*batch, heads * times, length, features))
    return result
