"""The standard operators of attention: softmax attention with a cache, and rotary position embedding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL, INT64
from ....runtime.ops import activation, comparison, creation, elementwise, indexing, linear, reduction, shaping, slicing
from ....runtime.ops import attention as attention_ops
from ....runtime.ops.trigonometry import tanh
from ....runtime.tracing import SymbolicTensor
from ..model import protos
from .context import Context
from .heads import align, join_heads, rotate, shape_of_heads, split_heads
from .table import cast, onnx
from .whole import as_single_node

UNBOUNDED = -1  # the size of a window without a bound
RAW, CAPPED, BIASED, SOFTMAX = range(4)  # the modes of the output `qk_matmul_output`
PRECISIONS = (1, 10, 11, 16)  # float32, float16, float64, bfloat16


@dataclass(frozen=True)
class AttentionOptions:
    """The attributes of Attention.

    Attributes:
        causal: whether no query attends to a later key.
        left: how many keys before its own position a query attends to; `UNBOUNDED` for all.
        right: how many keys after its own position, likewise.
        scale: the scale of the scores.
        softcap: the bound of the scores; 0 for no bound.
        precision: dtype of the softmax; None for that of the queries.
        heads: numbers of heads of queries and of keys, if operands have three dimensions.
        scores: the mode of the fourth output; None if it isn't used.
    """

    causal: bool
    left: int
    right: int
    scale: float
    softcap: float
    precision: np.dtype[Any] | None
    heads: tuple[int, int] | None
    scores: int | None


@onnx("Attention")
def attention(
    context: Context, Q: SymbolicTensor, K: SymbolicTensor, V: SymbolicTensor, attn_mask: SymbolicTensor | None = None,
    past_key: SymbolicTensor | None = None, past_value: SymbolicTensor | None = None,
    nonpad_kv_seqlen: SymbolicTensor | None = None, *,
    is_causal: int = 0, kv_num_heads: int | None = None, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None, left_window_size: int = UNBOUNDED, right_window_size: int = UNBOUNDED,
) -> Any:  # fmt: skip
    """Attention-23..25(Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?) -> Y, present_key?,
    present_value?, qk_matmul_output?
    """
    if qk_matmul_output_mode not in (RAW, CAPPED, BIASED, SOFTMAX):
        raise ShapeError(f"qk_matmul_output_mode must be 0 to 3, given {qk_matmul_output_mode}")
    if softmax_precision is not None and softmax_precision not in PRECISIONS:
        raise ShapeError(f"softmax_precision must be one of {PRECISIONS}, given {softmax_precision}")
    if min(left_window_size, right_window_size) < UNBOUNDED:
        raise ShapeError(f"windows must be -1 or more, given {left_window_size} and {right_window_size}")
    if softcap < 0:
        raise ShapeError(f"softcap must be 0 or more, given {softcap}")
    heads = _heads(Q, K, V, q_num_heads, kv_num_heads)
    q, k, v = (shape_of_heads(x, heads and heads[min(i, 1)]) for i, x in enumerate((Q, K, V)))
    _check(q, k, v, past_key, past_value, nonpad_kv_seqlen)
    options = AttentionOptions(
        bool(is_causal), left_window_size, right_window_size,
        1 / math.sqrt(q[-1]) if scale is None else scale,
        softcap, None if softmax_precision is None else protos.dtype_of(softmax_precision, "Attention"), heads,
        qk_matmul_output_mode if context.uses(3) else None,
    )  # fmt: skip
    operands = [Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen]
    presents = context.uses(1) or context.uses(2)
    if _needs_definition(options, q, k, past_key, presents):
        return _attention(*operands, options=options)
    attributes = {
        "is_causal": is_causal, "q_num_heads": q_num_heads, "kv_num_heads": kv_num_heads, "scale": scale,
        "softcap": softcap, "softmax_precision": softmax_precision,
    }  # fmt: skip
    windowed = options.left != UNBOUNDED or options.right != UNBOUNDED
    if windowed:
        attributes |= {"left_window_size": options.left, "right_window_size": options.right}
    version = 25 if windowed else 24 if nonpad_kv_seqlen is not None else 23
    count = 3 if presents else 1
    return as_single_node(
        "Attention", version, lambda *xs: _attention(*xs, options=options)[:count], operands, attributes
    )


def _needs_definition(options: AttentionOptions, q: Any, k: Any, past: Any, presents: bool) -> bool:
    """Whether to use ops only: ONNX Runtime's operator differs, or the op of attention covers these options."""
    if options.scores is not None or (presents and past is None):
        return True  # ONNX Runtime (1.31, 1.32) computes other biased scores with a past
    if past is None and options.causal and q[2] != k[2]:
        return True  # versions of ONNX Runtime disagree on which keys are masked
    plain = options.softcap == 0 and options.precision is None and options.left == options.right == UNBOUNDED
    return plain and past is None and options.heads is None and q[1] == k[1]


def _heads(q: Any, k: Any, v: Any, queries: int | None, keys: int | None) -> tuple[int, int] | None:
    """The numbers of heads of operands with three dimensions; None for four."""
    ranks = {q.ndim, k.ndim, v.ndim}
    if ranks == {4}:
        return None
    if ranks != {3}:
        listed = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ShapeError(f"needed queries, keys and values with 3 dimensions, or with 4, given {listed}")
    if not queries or not keys:
        raise ShapeError("operands of 3 dimensions need the attributes q_num_heads and kv_num_heads")
    return queries, keys


def _check(q: Any, k: Any, v: Any, past_key: Any, past_value: Any, lengths: Any) -> None:
    """Raise `ShapeError` unless the shapes (batch, heads, length, features) and the other operands fit."""

    def require_equal(what: str, *sizes: Any) -> None:
        if len({size for size in sizes if isinstance(size, int)}) > 1:
            raise ShapeError(f"needed the same {what}, given {' and '.join(map(str, sizes))}")

    require_equal("batch size", q[0], k[0], v[0])
    require_equal("number of heads of keys and values", k[1], v[1])
    require_equal("length of keys and values", k[2], v[2])
    require_equal("number of features of queries and keys", q[3], k[3])
    counts = q[1], k[1]
    if all(isinstance(count, int) for count in counts) and (counts[1] == 0 or counts[0] % counts[1]):
        raise ShapeError(f"{counts[0]} heads of queries can't share {counts[1]} heads of keys")
    if (past_key is None) != (past_value is None):
        raise ShapeError("past_key and past_value must be given together")
    if past_key is not None and lengths is not None:
        raise ShapeError(
            "nonpad_kv_seqlen belongs to an external cache: it can't be given with past_key and past_value"
        )
    for name, past, now in (("past_key", past_key, k), ("past_value", past_value, v)):
        if past is None:
            continue
        if past.ndim != 4:
            raise ShapeError(f"{name} must have 4 dimensions, given {tuple(past.shape)}")
        for axis, what in ((0, "batch size"), (1, "number of heads"), (3, "number of features")):
            require_equal(f"{what} of {name} and of the new keys or values", past.shape[axis], now[axis])
    if past_key is not None:
        require_equal("length of past_key and past_value", past_key.shape[2], past_value.shape[2])
    if lengths is not None and lengths.ndim != 1:
        raise ShapeError(f"nonpad_kv_seqlen must have 1 dimension, given {tuple(lengths.shape)}")
    if lengths is not None:
        require_equal("batch size and number of lengths", q[0], lengths.shape[0])


def _attention(
    Q: Any, K: Any, V: Any, mask: Any, past_key: Any, past_value: Any, lengths: Any, *, options: AttentionOptions
) -> tuple[Any, ...]:
    """The result, keys and values with the past, and the scores that `options` requests (None for none)."""
    q, k, v = (
        x if options.heads is None else split_heads(x, options.heads[min(i, 1)]) for i, x in enumerate((Q, K, V))
    )
    if past_key is not None:
        k, v = (
            slicing.concat(align(past, (*x.shape[:2], past.shape[2], x.shape[3])), x, axis=2)
            for past, x in ((past_key, k), (past_value, v))
        )
    k, v = (align(x, (q.shape[0], *x.shape[1:])) for x in (k, v))
    presents = k, v
    k, v = _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1])
    v = cast(align(v, (*v.shape[:2], k.shape[2], v.shape[3])), q.dtype)
    scores_shape = (*q.shape[:3], k.shape[2])
    allowed, added = _masks(q, mask, scores_shape)
    first = 0 if past_key is None else past_key.shape[2]  # the position of the first query
    simple = past_key is None and lengths is None and options.left == options.right == UNBOUNDED
    if lengths is not None:
        lengths = align(lengths, (q.shape[0],))
        first = -q.shape[2]  # counted from the end of each sequence
    if not (simple and options.causal):
        allowed = _combine_allowed(allowed, _visible(q, k.shape[2], first, lengths, options))
    if lengths is not None:
        real = comparison.less(_range(q, k.shape[2]), shaping.reshape(lengths, shape=(lengths.shape[0], 1, 1, 1)))
        allowed = _combine_allowed(allowed, real)
    causal = simple and options.causal
    wide = options.precision is None or options.precision == q.dtype
    if options.scores is None and options.softcap == 0 and wide:
        y = attention_ops.scaled_dot_product_attention(
            q, k, v, _combine_masks(allowed, added, q.dtype), causal=causal, scale=options.scale
        )
        scores = None
    else:
        if causal:
            allowed = _combine_allowed(allowed, _visible(q, k.shape[2], 0, None, options))
        y, scores = _attention_from_scores(q, k, v, _combine_masks(allowed, added, q.dtype), options)
    return y if options.heads is None else join_heads(y), *presents, scores


def _attention_from_scores(q: Any, k: Any, v: Any, mask: Any, options: AttentionOptions) -> tuple[Any, Any]:
    """The result computed from explicit scores, and the scores that `options` requests."""
    keys = shaping.transpose(k, permutation=(0, 1, 3, 2))
    raw = linear.matmul(q * options.scale, keys)
    capped = tanh(raw / options.softcap) * options.softcap if options.softcap else raw
    bias = None
    if mask is not None:
        zero, lowest = np.zeros((), q.dtype), np.asarray(-np.inf).astype(q.dtype)
        bias = elementwise.where(mask, zero, lowest) if mask.dtype == BOOL else mask
    biased = capped if bias is None else capped + bias
    dtype = options.precision or q.dtype
    if bias is None:
        weights = activation.softmax(cast(biased, dtype), axis=-1)
    else:  # a query that may attend to no key has weights 0, and no gradient
        highest = reduction.reduce_max(bias, axes=(-1,), keepdims=True)
        some = comparison.greater(highest, np.asarray(-np.inf).astype(q.dtype))
        safe = elementwise.where(some, biased, np.zeros((), q.dtype))
        weights = elementwise.where(some, activation.softmax(cast(safe, dtype), axis=-1), np.zeros((), dtype))
    weights = cast(weights, q.dtype)
    shown = {RAW: raw, CAPPED: capped, BIASED: biased, SOFTMAX: weights}
    return linear.matmul(weights, v), None if options.scores is None else shown[options.scores]


def _repeat_heads(x: Any, heads: Any) -> Any:
    """Repeat heads of keys or values, so that each query head has one; neighbouring query heads share a head."""
    batch, kv_heads, length, size = x.shape
    if kv_heads == heads:
        return x
    spread = shaping.expand(
        shaping.reshape(x, shape=(batch, kv_heads, 1, length, size)),
        shape=(batch, kv_heads, heads // kv_heads, length, size),
    )
    return shaping.reshape(spread, shape=(batch, heads, length, size))


def _masks(q: Any, mask: Any, shape: tuple[Any, ...]) -> tuple[Any, Any]:
    """The mask, as bools for allowed keys or as a term to add to the scores; keys beyond the mask are masked."""
    if mask is None:
        return None, None
    if not 1 <= mask.ndim <= 4:
        raise ShapeError(f"attn_mask must have 1 to 4 dimensions, given {tuple(mask.shape)}")
    is_bool = mask.dtype == BOOL
    mask = mask if is_bool else cast(mask, q.dtype)
    length, keys = mask.shape[-1], shape[-1]
    if isinstance(length, int) and isinstance(keys, int) and 1 < length < keys:
        rest = (*mask.shape[:-1], keys - length)
        filling = False if is_bool else -math.inf
        mask = slicing.concat(
            mask, mask.builder.create(creation.full, shape=rest, value=filling, dtype=mask.dtype), axis=-1
        )
    mask = align(mask, shape)
    return (mask, None) if is_bool else (None, mask)


def _visible(q: Any, keys: Any, first: Any, lengths: Any, options: AttentionOptions) -> Any:
    """The keys whose position allows a query to attend to them; None if all are allowed.

    The position of the first query is `first`, counted from the ends of sequences if there are `lengths`.
    """
    places = _range(q, keys)
    positions = shaping.reshape(_range(q, first + q.shape[2], first), shape=(q.shape[2], 1))
    positions = (
        positions if lengths is None else positions + shaping.reshape(lengths, shape=(lengths.shape[0], 1, 1, 1))
    )
    allowed = comparison.less_equal(places, positions) if options.causal else None
    if options.left != UNBOUNDED:
        allowed = _combine_allowed(allowed, comparison.greater_equal(places, positions - options.left))
    if options.right != UNBOUNDED:
        allowed = _combine_allowed(allowed, comparison.less_equal(places, positions + options.right))
    return allowed


def _range(like: Any, stop: Any, start: Any = 0) -> Any:
    return like.builder.create(creation.arange, start=start, stop=stop, dtype=INT64)


def _combine_allowed(first: Any, second: Any) -> Any:
    masks = [x for x in (first, second) if x is not None]
    return comparison.logical_and(*masks) if len(masks) == 2 else masks[0] if masks else None


def _combine_masks(allowed: Any, added: Any, dtype: np.dtype[Any]) -> Any:
    """Combine a mask of allowed keys and one that is added to scores; None if both are absent."""
    if allowed is None or added is None:
        return added if allowed is None else allowed
    return elementwise.where(allowed, added, np.asarray(-np.inf).astype(dtype))


@onnx("RotaryEmbedding")
def rotary_embedding(
    context: Context, X: SymbolicTensor, cos_cache: SymbolicTensor, sin_cache: SymbolicTensor,
    position_ids: SymbolicTensor | None = None, *,
    interleaved: int = 0, num_heads: int | None = None, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    """RotaryEmbedding-23(X, cos_cache, sin_cache, position_ids?) -> Y"""
    if X.ndim not in (3, 4):
        raise ShapeError(f"X must have 3 or 4 dimensions, given {tuple(X.shape)}")
    if X.ndim == 3 and not num_heads:
        raise ShapeError("X of 3 dimensions needs the attribute num_heads")
    heads = num_heads if X.ndim == 3 else None
    size = shape_of_heads(X, heads)[-1]
    turned = rotary_embedding_dim or size
    if isinstance(size, int) and (turned > size or turned % 2):
        raise ShapeError(f"needed an even number of at most {size} features to rotate, given {turned}")
    rank = 3 if position_ids is None else 2
    for name, cache in (("cos_cache", cos_cache), ("sin_cache", sin_cache)):
        if cache.ndim != rank:
            condition = "without position_ids" if position_ids is None else "with position_ids"
            raise ShapeError(f"{name} must have {rank} dimensions {condition}, given {tuple(cache.shape)}")
        if isinstance(cache.shape[-1], int) and cache.shape[-1] != turned // 2:
            raise ShapeError(
                f"{name} must hold {turned // 2} angles, half the rotated features, given {cache.shape[-1]}"
            )
    if position_ids is not None and position_ids.ndim != 2:
        raise ShapeError(f"position_ids must have 2 dimensions, given {tuple(position_ids.shape)}")

    def definition(X: Any, cos: Any, sin: Any, position_ids: Any) -> list[Any]:
        x = X if heads is None else split_heads(X, heads)
        if position_ids is not None:
            cos, sin = (indexing.take(cache, position_ids, axis=0) for cache in (cos, sin))
        y = rotate(x, cos, sin, interleaved=bool(interleaved))
        return [y if heads is None else join_heads(y)]

    attributes = {"interleaved": interleaved, "num_heads": heads, "rotary_embedding_dim": rotary_embedding_dim}
    operands = [X, cos_cache, sin_cache, position_ids]
    return as_single_node("RotaryEmbedding", 23, definition, operands, attributes)[0]
