"""Scaled dot-product attention (Vaswani et al. 2017, equation 1) and its weights."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.types import BOOL, FLOAT16, FLOAT32, FLOAT64, is_floating
from . import linear, reduction, shaping
from .common import broadcast_shapes, in_float32, same_dtype, unbroadcast
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def attention_weights(
    q: Tensor, k: Tensor, mask: Tensor | None = None, *, causal: bool, scale: float | None = None
) -> Tensor:
    """`softmax(q k^T * scale + mask)` over keys: how much each query attends to each key.

    A query that may attend to no key has weights 0, as in ATen's `_safe_softmax`.

    Args:
        q: queries, (..., queries, features), floating-point.
        k: keys, (..., keys, features).
        mask: broadcasts to (..., queries, keys); boolean (True: may attend) or added to the scores.
        causal: query i attends to keys 0 to i only, whatever the numbers of queries and keys are.
        scale: of the scores; 1 / sqrt(features) by default.

    Returns:
        (..., queries, keys), of the dtype of `q`.
    """


@attention_weights.infer
def _(q: Type, k: Type, mask: Type | None, *, causal: bool, scale: float | None) -> Type:
    same_dtype(q, k)
    require(is_floating(q.dtype), f"needed floating-point queries, given {q}")
    require(q.rank >= 2 and k.rank >= 2, f"needed (..., length, features), given {q} and {k}")
    require(q.shape[-1] == k.shape[-1], f"needed queries and keys with as many features, given {q} and {k}")
    shape = (*broadcast_shapes(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
    if mask is not None:
        require(mask.dtype in (BOOL, q.dtype), f"needed a mask that is bool or {q.dtype.name}, given {mask}")
        require(broadcast_shapes(shape, mask.shape) == shape, f"mask {mask} doesn't broadcast to the weights' {shape}")
    return q.with_shape(shape)


@attention_weights.kernel
def _(q: Array, k: Array, mask: Array | None, *, causal: bool, scale: float | None) -> Array:
    weights, sums = _unnormalized(q, k, mask, causal, scale)
    weights /= sums
    return weights


@attention_weights.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, *, causal: bool, scale: float | None
) -> tuple[Tensor | None, ...]:
    offset = reduction.reduce_sum(g * y, axes=(-1,), keepdims=True)
    return _through_softmax(g, offset, y, q, k, mask, scale)


@attention_weights.onnx
def _(graph: OnnxGraph, q: str, k: str, mask: str, *, causal: bool, scale: float | None) -> str:
    weights, attends = _onnx_weights(graph, q, k, mask, causal, scale)
    return str(graph.op("Mul", weights, attends) if attends else weights)


@operator
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_mask: Tensor | None = None,
    *,
    causal: bool,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """`dropout(softmax(q k^T * scale + mask)) v`. ATen scaled_dot_product_attention.

    Args:
        q: queries, (..., queries, features), floating-point.
        k: keys, (..., keys, features).
        v: values, (..., keys, value features).
        mask: as in `attention_weights`.
        dropout_mask: draws, 1 where a weight is kept and 0 where it is dropped; (..., queries, keys), as `q` in dtype.
        causal: as in `attention_weights`.
        scale: as in `attention_weights`.
        dropout: probability with which the weights were dropped; the kept ones are divided by `1 - dropout`.

    Returns:
        (..., queries, value features), of the dtype of `q`.
    """


@scaled_dot_product_attention.infer
def _(
    q: Type,
    k: Type,
    v: Type,
    mask: Type | None,
    dropout_mask: Type | None,
    *,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> Type:
    (weights,) = attention_weights.infer_types([q, k, mask], {"causal": causal, "scale": scale})
    same_dtype(q, v)
    require(v.rank >= 2 and v.shape[-2] == k.shape[-2], f"needed as many keys as values, given {k} and {v}")
    if dropout_mask is not None:
        same_dtype(q, dropout_mask)
        require(dropout_mask.shape == weights.shape, f"needed draws of shape {weights.shape}, given {dropout_mask}")
    return q.with_shape((*broadcast_shapes(weights.shape[:-2], v.shape[:-2]), q.shape[-2], v.shape[-1]))


@scaled_dot_product_attention.kernel
def _(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    dropout_mask: Array | None,
    *,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> Array:
    weights, sums = _unnormalized(q, k, mask, causal, scale)
    if dropout_mask is not None:
        weights *= dropout_mask
    y: Array = linear.matmul(weights, v)
    y *= (1.0 if dropout_mask is None else _keep_scale(dropout)) / sums
    return y


@scaled_dot_product_attention.vjp
@in_float32
def _(
    g: Tensor,
    y: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_mask: Tensor | None,
    *,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> tuple[Tensor | None, ...]:
    weights = attention_weights(q, k, mask, causal=causal, scale=scale)
    g_weights, kept = g @ _transposed(v), weights
    if dropout_mask is not None:
        factor = dropout_mask * _keep_scale(dropout)
        g_weights, kept = g_weights * factor, weights * factor
    g_weights = unbroadcast(g_weights, weights)
    gv = unbroadcast(_transposed(kept) @ g, v)
    if len(y.shape) == len(weights.shape) and y.shape[:-2] == weights.shape[:-2]:
        offset = reduction.reduce_sum(g * y, axes=(-1,), keepdims=True)  # = sum(g_weights * weights), but smaller
    else:
        offset = reduction.reduce_sum(g_weights * weights, axes=(-1,), keepdims=True)
    gq, gk, g_mask = _through_softmax(g_weights, offset, weights, q, k, mask, scale)
    return gq, gk, gv, g_mask, None


@scaled_dot_product_attention.onnx
def _(
    graph: OnnxGraph,
    q: str,
    k: str,
    v: str,
    mask: str,
    dropout_mask: str,
    *,
    causal: bool,
    scale: float | None,
    dropout: float,
) -> str:
    factor = _scale(graph.type(q), scale)
    if not dropout_mask and factor > 0 and _onnx_has_attention(graph, q, k, v, mask):
        # a causal mask is an attribute only where it is the one mask: the other is lowered less than by infinity
        lowered, attends = _onnx_mask(graph, q, k, mask, causal) if mask else ("", "")
        if mask and not causal:  # the causal mask has a row for each
            lowered = _onnx_per_query(graph, lowered, graph.type(mask), graph.type(q), graph.type(k))
        y = graph.op("Attention", q, k, v, lowered, scale=factor, is_causal=int(causal and not mask))
    else:
        weights, attends = _onnx_weights(graph, q, k, mask, causal, scale)
        if dropout_mask:
            weights = graph.op("Mul", weights, dropout_mask)
            v = _onnx_scaled(graph, v, _keep_scale(dropout))
        y = graph.op("MatMul", weights, v)
    return str(graph.op("Mul", y, attends) if attends else y)


def _scale(q: Any, scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def _keep_scale(dropout: float) -> float:
    """What kept weights are multiplied by; with dropout 1 none is kept."""
    return 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0


def _unnormalized(q: Array, k: Array, mask: Array | None, causal: bool, scale: float | None) -> tuple[Array, Array]:
    """The exponentials of the scores less their maximum, and their sums over keys (1 where all are 0)."""
    scores: Array = linear.matmul(q * q.dtype.type(_scale(q, scale)), np.swapaxes(k, -1, -2))
    if mask is not None and mask.dtype == BOOL:
        np.copyto(scores, -np.inf, where=~mask)
    elif mask is not None:
        scores += mask
    if causal:
        np.copyto(scores, -np.inf, where=~np.tri(*scores.shape[-2:], dtype=np.bool_))
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    highest[np.isneginf(highest)] = 0
    scores -= highest
    np.exp(scores, out=scores)
    sums = scores.sum(axis=-1, keepdims=True)
    sums[sums == 0] = 1
    return scores, sums


def _transposed(x: Tensor) -> Any:
    rank = len(x.shape)
    return shaping.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def _through_softmax(
    g: Any, offset: Any, weights: Any, q: Any, k: Any, mask: Any, scale: float | None
) -> tuple[Any, Any, Any]:
    """Cotangents of queries, keys and mask from that of the weights; `offset` is the sum over keys of `g * weights`."""
    g_scores = weights * (g - offset)
    factor = _scale(q, scale)
    gq = unbroadcast((g_scores @ k) * factor, q)
    gk = unbroadcast(_transposed(g_scores) @ (q * factor), k)
    return gq, gk, None if mask is None or mask.dtype == BOOL else unbroadcast(g_scores, mask)


def _onnx_has_attention(graph: OnnxGraph, q: str, k: str, v: str, mask: str) -> bool:
    """Whether Attention-23 takes these operands: (batch, heads, length, size), without broadcasting but of the mask."""
    types = [graph.type(x) for x in (q, k, v)]
    return (
        graph.opset >= 23
        and types[0].dtype in (FLOAT32, FLOAT16)  # ONNX Runtime has no other kernels
        and all(type.rank == 4 and type.shape[:2] == types[0].shape[:2] for type in types)
        and (not mask or 2 <= graph.type(mask).rank <= 4)
    )


def _onnx_per_query(graph: OnnxGraph, lowered: str, mask: Type, q: Type, k: Type) -> str:
    """The mask with a row for each query: ONNX Runtime doesn't broadcast one row."""
    matrix = (q.shape[-2], k.shape[-2])
    if mask.shape[-2:] == matrix:
        return lowered
    return str(graph.op("Expand", lowered, graph.dims((*mask.shape[:-2], *matrix))))


def _onnx_weights(graph: OnnxGraph, q: str, k: str, mask: str, causal: bool, scale: float | None) -> tuple[str, str]:
    """The weights, and what to multiply by so that queries without any key get 0 (`""` where there are none)."""
    rank = graph.type(k).rank
    scaled = _onnx_scaled(graph, q, _scale(graph.type(q), scale))
    scores = graph.op("MatMul", scaled, graph.op("Transpose", k, perm=[*range(rank - 2), rank - 1, rank - 2]))
    lowered, attends = _onnx_mask(graph, q, k, mask, causal)
    return graph.op("Softmax", graph.op("Add", scores, lowered) if lowered else scores, axis=-1), attends


def _onnx_mask(graph: OnnxGraph, q: str, k: str, mask: str, causal: bool) -> tuple[str, str]:
    """What to add to scores, and what to multiply results by so that queries without any key get 0 (`""`: nothing).

    Masked scores are lowered by half the dtype's range instead of infinity: a row of infinities would become NaN.
    """
    dtype = graph.type(k).dtype
    lowest = graph.constant(float(ml_dtypes.finfo(dtype).min) / 2, dtype)  # type: ignore[no-untyped-call]
    lowered = ""
    allowed: list[str] = []
    if mask and graph.type(mask).dtype == BOOL:
        allowed.append(mask)
    if causal:
        rows, columns = (_onnx_range(graph, graph.type(x).shape[-2]) for x in (q, k))
        allowed.append(graph.op("GreaterOrEqual", graph.op("Unsqueeze", rows, graph.constant(np.array([1]))), columns))
    if allowed:
        lowered = graph.op("Where", _onnx_all(graph, allowed), graph.constant(0.0, dtype), lowest)
    if mask and graph.type(mask).dtype != BOOL:
        finite = graph.op("Max", mask, lowest)
        lowered = graph.op("Add", lowered, finite) if lowered else finite
        allowed.append(graph.op("Greater", mask, graph.constant(-np.inf, dtype)))
    if not mask:
        return lowered, ""
    attends = graph.cast(_onnx_all(graph, allowed), dtype)
    return lowered, graph.op("ReduceMax", attends, graph.constant(np.array([-1])))


def _onnx_all(graph: OnnxGraph, conditions: list[str]) -> str:
    return functools.reduce(lambda a, b: str(graph.op("And", a, b)), conditions)


def _onnx_scaled(graph: OnnxGraph, x: str, factor: float) -> str:
    kind = graph.type(x)
    # ONNX Runtime fuses a scalar factor into MatMul, as a float32: in float64 it is kept as a vector.
    count = kind.shape[-1] if kind.dtype == FLOAT64 else 1
    return str(graph.op("Mul", x, graph.constant(np.full(count, factor), kind.dtype)))


def _onnx_range(graph: OnnxGraph, size: Any) -> str:
    zero, one = graph.constant(np.array(0)), graph.constant(np.array(1))
    return str(graph.op("Range", zero, graph.op("Squeeze", graph.dims((size,))), one))
