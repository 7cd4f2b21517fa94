"""Scaled dot-product attention (Vaswani et al. 2017, equation 1) and its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import BOOL, is_floating
from ..traits import Traits
from . import linear, reduction, shaping
from .attention_onnx import (
    additive_mask,
    apply_weights,
    expand_to_queries,
    has_attention,
    keep_scale,
    score_scale,
    softmax_weights,
)
from .common import add_cotangents, broadcast_shapes, in_float32, require_same_dtype, unbroadcast
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


attention_weights.traits = Traits(costly=True)


@attention_weights.infer
def _(q: Type, k: Type, mask: Type | None, *, causal: bool, scale: float | None) -> Type:
    require_same_dtype(q, k)
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
    weights, sums = _exponentials(q, k, mask, causal, scale)
    weights /= sums
    return weights


@attention_weights.vjp
@in_float32
def _(
    g: Tensor, y: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, *, causal: bool, scale: float | None
) -> tuple[Tensor | None, ...]:
    offset = reduction.reduce_sum(g * y, axes=(-1,), keepdims=True)
    return _softmax_cotangents(g, offset, y, q, k, mask, scale)


@attention_weights.onnx
def _(graph: OnnxGraph, q: str, k: str, mask: str, *, causal: bool, scale: float | None) -> str:
    weights, attends = softmax_weights(graph, q, k, mask, causal, scale)
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
        dropout_mask: random numbers, 1 to keep a weight and 0 to drop it; (..., queries, keys), in the dtype of `q`.
        causal: as in `attention_weights`.
        scale: as in `attention_weights`.
        dropout: probability with which the weights were dropped; the kept ones are divided by `1 - dropout`.

    Returns:
        (..., queries, value features), of the dtype of `q`.
    """


scaled_dot_product_attention.traits = Traits(costly=True)


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
    require_same_dtype(q, v)
    require(v.rank >= 2 and v.shape[-2] == k.shape[-2], f"needed as many keys as values, given {k} and {v}")
    if dropout_mask is not None:
        require_same_dtype(q, dropout_mask)
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
    return _apply_weights(*_exponentials(q, k, mask, causal, scale), v, dropout_mask, dropout)


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
    attributes: dict[str, Any] = {"causal": causal, "scale": scale, "dropout": dropout}
    _, weights = attention_with_weights(q, k, v, mask, dropout_mask, **attributes)
    return _attention_vjp((g, None), y, weights, q, k, v, mask, dropout_mask, scale, dropout)


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
    factor = score_scale(graph.type(q), scale)
    if not dropout_mask and factor > 0 and has_attention(graph, q, k, v, mask):
        # the attribute `is_causal` would mask with infinities, so it is used only without another mask
        bias, attends = additive_mask(graph, q, k, mask, causal) if mask else ("", "")
        if mask and not causal:  # the causal mask has a row for each query
            bias = expand_to_queries(graph, bias, graph.type(mask), graph.type(q), graph.type(k))
        y = graph.op("Attention", q, k, v, bias, scale=factor, is_causal=int(causal and not mask))
    else:
        weights, attends = softmax_weights(graph, q, k, mask, causal, scale)
        y = apply_weights(graph, weights, v, dropout_mask, dropout)
    return str(graph.op("Mul", y, attends) if attends else y)


@operator
def attention_with_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_mask: Tensor | None = None,
    *,
    causal: bool,
    scale: float | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """`scaled_dot_product_attention` that also returns what its gradient needs.

    Args:
        q: see `scaled_dot_product_attention`.
        k: see there.
        v: see there.
        mask: see there.
        dropout_mask: see there.
        causal: see there.
        scale: see there.
        dropout: see there.

    Returns:
        The result of `scaled_dot_product_attention`, and the weights before dropout, as in `attention_weights`.
    """


attention_with_weights.traits = Traits(costly=True)


attention_with_weights.extends(scaled_dot_product_attention)


@attention_with_weights.infer
def _(q: Type, k: Type, *others: Type | None, **attributes: Any) -> tuple[Type, ...]:
    weight_attributes = {"causal": attributes["causal"], "scale": attributes["scale"]}
    y = scaled_dot_product_attention.infer_types([q, k, *others], attributes)
    return *y, *attention_weights.infer_types([q, k, others[1]], weight_attributes)


@attention_with_weights.kernel
def _(
    q: Array, k: Array, v: Array, mask: Any, dropout_mask: Any, *, causal: bool, scale: float | None, dropout: float
) -> tuple[Array, Array]:
    weights, sums = _exponentials(q, k, mask, causal, scale)
    y = _apply_weights(weights, sums, v, dropout_mask, dropout)
    weights /= sums
    return y, weights


@attention_with_weights.vjp
@in_float32
def _(
    g: tuple[Any, Any], y: tuple[Any, Any], q: Any, k: Any, v: Any, mask: Any, dropout_mask: Any, *,
    causal: bool, scale: float | None, dropout: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    return _attention_vjp(g, *y, q, k, v, mask, dropout_mask, scale, dropout)


@attention_with_weights.onnx
def _(
    graph: OnnxGraph, q: str, k: str, v: str, mask: str, dropout_mask: str, *,
    causal: bool, scale: float | None, dropout: float,
) -> tuple[str, str]:  # fmt: skip
    weights, attends = softmax_weights(graph, q, k, mask, causal, scale)
    weights = graph.op("Mul", weights, attends) if attends else weights
    return apply_weights(graph, weights, v, dropout_mask, dropout), weights


def _attention_vjp(
    g: tuple[Any, Any], y: Any, weights: Any, q: Any, k: Any, v: Any, mask: Any, dropout_mask: Any,
    scale: float | None, dropout: float,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the cotangents of the operands from those of the result and of the weights; None stands for zero."""
    g_y, g_weights = g
    offset = None if g_weights is None else reduction.reduce_sum(g_weights * weights, axes=(-1,), keepdims=True)
    gv = None
    if g_y is not None:
        g_undropped, dropped = g_y @ _swap_last_axes(v), weights
        if dropout_mask is not None:
            factor = dropout_mask * keep_scale(dropout)
            g_undropped, dropped = g_undropped * factor, weights * factor
        g_undropped = unbroadcast(g_undropped, weights)
        gv = unbroadcast(_swap_last_axes(dropped) @ g_y, v)
        # not the sum of g_y * y over features, which is equal up to rounding: with one key, the result must be 0
        added_offset = reduction.reduce_sum(g_undropped * weights, axes=(-1,), keepdims=True)
        g_weights, offset = add_cotangents(g_weights, g_undropped), add_cotangents(offset, added_offset)
    gq, gk, g_mask = _softmax_cotangents(g_weights, offset, weights, q, k, mask, scale)
    return gq, gk, gv, g_mask, None


def _apply_weights(weights: Array, sums: Array, v: Array, dropout_mask: Array | None, dropout: float) -> Array:
    """Return the result, from the results of `_exponentials`."""
    y: Array = linear.matmul(weights if dropout_mask is None else weights * dropout_mask, v)
    y *= (1.0 if dropout_mask is None else keep_scale(dropout)) / sums
    return y


def _exponentials(q: Array, k: Array, mask: Array | None, causal: bool, scale: float | None) -> tuple[Array, Array]:
    """Return the exponentials of the scores minus their maximum, and their sums over keys (1 where all are 0)."""
    scores: Array = linear.matmul(q * q.dtype.type(score_scale(q, scale)), np.swapaxes(k, -1, -2))
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


def _swap_last_axes(x: Tensor) -> Any:
    rank = len(x.shape)
    return shaping.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def _softmax_cotangents(
    g: Any, offset: Any, weights: Any, q: Any, k: Any, mask: Any, scale: float | None
) -> tuple[Any, Any, Any]:
    """Return cotangents of queries, keys and mask from the weights'; `offset` is the sum of `g * weights` over keys."""
    g_scores = weights * (g - offset)
    factor = score_scale(q, scale)
    gq = unbroadcast((g_scores @ k) * factor, q)
    gk = unbroadcast(_swap_last_axes(g_scores) @ (q * factor), k)
    return gq, gk, None if mask is None or mask.dtype == BOOL else unbroadcast(g_scores, mask)
