"""Attention operators of the domain com.microsoft, which ONNX Runtime's optimizers create."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL, INT64
from ....runtime.ops import attention, comparison, creation, elementwise, indexing, shaping, slicing
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .convolution import matrix_product
from .fused import DOMAIN
from .heads import item, join_heads, part, rotate, split_heads
from .table import cast, onnx


def _with_past(past: Any, now: Any) -> Any:
    return now if past is None else slicing.concat(_with_batch_size(past, now.shape[0]), now, axis=2)


def _with_batch_size(x: Any, batch: Any) -> Any:
    """`x` with a first axis of size `batch`, which is checked at run time if sizes are symbolic."""
    if x.shape[0] in (1, batch) or (isinstance(x.shape[0], int) and isinstance(batch, int)):
        return x
    return shaping.reshape(x, shape=(batch, *x.shape[1:]))


def _attend(
    context: Context, q: Any, k: Any, v: Any, mask: Any, bias: Any, causal: bool, fill: float, scale: float
) -> Any:
    """Attention per head. Masked scores get `fill` added, a finite number, so that a query may have no key."""
    keys, queries = k.shape[2], q.shape[2]
    added = bias
    if mask is not None:
        allowed = _allowed_keys(_with_batch_size(mask, q.shape[0]), keys, q.shape[0], context)
        added = _add(context, added, _fill(allowed, fill, q.dtype))
    if causal:
        at = context.builder.create(creation.arange, start=keys - queries, stop=keys, dtype=INT64)
        at = shaping.reshape(at, shape=(queries, 1))
        places = context.builder.create(creation.arange, stop=keys, dtype=INT64)
        allowed = comparison.less_equal(places, at)
        added = _add(context, added, _fill(allowed, fill, q.dtype))
    factor = None if scale == 0.0 else scale
    return join_heads(attention.scaled_dot_product_attention(q, k, v, added, causal=False, scale=factor))


def _add(context: Context, first: Any, second: Any) -> Any:
    return second if first is None else context.broadcast("Add", first, second)


def _fill(allowed: Any, fill: float, dtype: np.dtype[Any]) -> Any:
    return elementwise.where(allowed, np.zeros((), dtype), np.asarray(fill).astype(dtype))


def _allowed_keys(mask: Any, keys: Any, batch: Any, context: Context) -> Any:
    """The allowed keys for a mask of one to three dimensions, to broadcast to (batch, heads, queries, keys)."""
    if mask.ndim == 1:
        if mask.shape != (batch,):
            raise Unsupported("a mask with the starts and ends of sequences")
        places = context.builder.create(creation.arange, stop=keys, dtype=INT64)
        lengths = shaping.reshape(cast(mask, INT64), shape=(batch, 1, 1, 1))
        return comparison.less(places, lengths)
    allowed = mask if mask.dtype == BOOL else comparison.greater(mask, np.zeros((), mask.dtype))
    if mask.ndim == 2:
        return shaping.reshape(allowed, shape=(mask.shape[0], 1, 1, mask.shape[1]))
    if mask.ndim == 3:
        return shaping.reshape(allowed, shape=(mask.shape[0], 1, *mask.shape[1:]))
    raise Unsupported(f"a mask of {mask.ndim} dimensions")


@onnx("Attention", domain=DOMAIN)
def attention_(
    context: Context, input: SymbolicTensor, weights: SymbolicTensor, bias: SymbolicTensor | None = None,
    mask_index: SymbolicTensor | None = None,
    past: SymbolicTensor | None = None, attention_bias: SymbolicTensor | None = None,
    past_sequence_length: SymbolicTensor | None = None, *,
    num_heads: int, unidirectional: int = 0, scale: float = 0.0, mask_filter_value: float = -10000.0,
    qkv_hidden_sizes: Any = None, do_rotary: int = 0, rotary_embedding_dim: int = 0, past_present_share_buffer: int = 0,
) -> Any:  # fmt: skip
    """Attention-1(input, weights, bias?, mask_index?, past?, attention_bias?, past_sequence_length?) -> output,
    present?; weights project to queries, keys and values at once
    """
    if do_rotary or past_present_share_buffer:
        raise Unsupported("rotary positions, or a past that shares the memory of the present")
    projected = matrix_product(context, input, weights)
    projected = projected if bias is None else context.broadcast("Add", projected, bias)
    third = projected.shape[-1] // 3
    sizes = list(qkv_hidden_sizes or (third, third, third))
    ends = (0, sizes[0], sizes[0] + sizes[1], sum(sizes))
    q, k, v = (split_heads(part(projected, 2, ends[i], ends[i + 1]), num_heads) for i in range(3))
    if past is not None:
        k, v = (_with_past(item(past, 0, i), x) for i, x in enumerate((k, v)))
    y = _attend(context, q, k, v, mask_index, attention_bias, bool(unidirectional), mask_filter_value, scale)
    if not context.uses(1):
        return y
    return y, slicing.concat(*(shaping.reshape(x, shape=(1, *x.shape)) for x in (k, v)), axis=0)


@onnx("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(
    context: Context, query: SymbolicTensor, key: SymbolicTensor | None = None, value: SymbolicTensor | None = None,
    bias: SymbolicTensor | None = None, key_padding_mask: SymbolicTensor | None = None,
    attention_bias: SymbolicTensor | None = None,
    past_key: SymbolicTensor | None = None, past_value: SymbolicTensor | None = None,
    past_sequence_length: SymbolicTensor | None = None,
    cache_indirection: SymbolicTensor | None = None, *, num_heads: int, unidirectional: int = 0, scale: float = 0.0,
    mask_filter_value: float = -10000.0,
) -> Any:  # fmt: skip
    """MultiHeadAttention-1(query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?,
    past_sequence_length?, cache_indirection?) -> output, present_key?, present_value?, qk?
    """
    if past_sequence_length is not None or cache_indirection is not None or context.uses(3):
        raise Unsupported("a past in a buffer, or scores as a result")
    q, k, v = _split_qkv(query, key, value, num_heads)
    if bias is not None:
        size = q.shape[1] * q.shape[3]
        parts = [part(bias, 0, 0, size), part(bias, 0, size, 2 * size), part(bias, 0, 2 * size, bias.shape[0])]
        q, k, v = (
            context.broadcast("Add", x, shaping.reshape(part, shape=(1, num_heads, 1, x.shape[3])))
            for x, part in zip((q, k, v), parts, strict=True)
        )
    k, v = _with_past(past_key, k), _with_past(past_value, v)
    y = _attend(context, q, k, v, key_padding_mask, attention_bias, bool(unidirectional), mask_filter_value, scale)
    return (y, k, v) if context.uses(1) or context.uses(2) else y


def _split_qkv(query: Any, key: Any, value: Any, heads: int) -> tuple[Any, Any, Any]:
    """Queries, keys and values, (batch, heads, length, features), which may be packed into one tensor."""
    if query.ndim == 5:  # (batch, length, heads, 3, features)
        q, k, v = (shaping.transpose(item(query, 3, i), permutation=(0, 2, 1, 3)) for i in range(3))
        return q, k, v
    if key is None:
        raise ShapeError("needed the operand key, or a packed query of 5 dimensions")
    if key.ndim == 5:  # (batch, length, heads, 2, features)
        k, v = (shaping.transpose(item(key, 3, i), permutation=(0, 2, 1, 3)) for i in range(2))
        return split_heads(query, heads), k, v
    if value is None:
        raise ShapeError("needed the operand value, or a packed key of 5 dimensions")
    return split_heads(query, heads), *(x if x.ndim == 4 else split_heads(x, heads) for x in (key, value))


@onnx("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(
    context: Context, input: SymbolicTensor, position_ids: SymbolicTensor, cos_cache: SymbolicTensor,
    sin_cache: SymbolicTensor, *,
    interleaved: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0, is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Any:  # fmt: skip
    """RotaryEmbedding-1(input, position_ids, cos_cache, sin_cache) -> output; (batch, length, features), or by heads"""
    flat = input.ndim == 3
    if flat:
        size = input.shape[2] // num_heads if num_heads else 2 * cos_cache.shape[1]
        x = split_heads(input, input.shape[2] // size)
    else:
        x = input
    turned = rotary_embedding_dim or x.shape[3]
    length = x.shape[2]
    if position_ids.ndim == 1:  # the position of the first element
        places = context.builder.create(creation.arange, stop=length, dtype=INT64)
        position_ids = shaping.reshape(context.broadcast("Add", places, position_ids), shape=(1, length))
    cos, sin = (indexing.take(cache, position_ids, axis=0) for cache in (cos_cache, sin_cache))
    if cos.shape[-1] != turned // 2 and isinstance(cos.shape[-1], int):
        raise ShapeError(f"needed angles for {turned // 2} pairs of features, given {cos.shape[-1]}")
    y = rotate(x, cos, sin, interleaved=bool(interleaved))
    return join_heads(y) if flat else y
