"""Multi-head attention (Vaswani et al. 2017, section 3.2) on projected queries, keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import bool_, dtype_name, uint8
from ..ir.types import is_floating
from ..ops import attention, comparison, elementwise, random, shaping
from ..ops.linear import matmul
from .dropout import dropout as drop
from .operands import as_tensor


def attend(
    q: Any, k: Any, v: Any, mask: Any = None, *, dropout: float = 0.0, need_weights: bool = False
) -> tuple[Any, Any]:
    """Return the attention output for each query, and the attention weights.

    Args:
        q: queries, (batch, heads, queries, features).
        k: keys, (batch, heads, keys, features).
        v: values, (batch, heads, keys, features).
        mask: the result of `join_masks`; a query that may attend to no key gets 0.
        dropout: the probability of dropping a weight.
        need_weights: whether to return the weights; without them it is faster.

    Returns:
        (batch, heads, queries, features), and (batch, heads, queries, keys) or None.
    """
    if need_weights:
        weights = attention.attention_weights(q, k, mask, causal=False)
        weights = drop(weights, dropout) if dropout else weights
        return matmul(weights, v), weights
    shape = (*q.shape[:-1], k.shape[-2])
    keep_mask = random.random_like(q, random.bernoulli, shape, probability=1.0 - dropout) if dropout else None
    return attention.scaled_dot_product_attention(q, k, v, mask, keep_mask, causal=False, dropout=dropout), None


def join_masks(*masks: Any, like: Any) -> Any:
    """Combine masks that broadcast to (batch, heads, queries, keys) into one for the attention ops; None for no masks.

    The masks are bools, True where a query must not attend, or numbers to add to the scores. The result is bool (True:
    may attend) if all masks are, and otherwise has the dtype of `like`.
    """
    present = [mask for mask in masks if mask is not None]
    if not present:
        return None
    if all(mask.dtype == bool_ for mask in present):
        forbidden = present[0]
        for mask in present[1:]:
            forbidden = comparison.logical_or(forbidden, mask)
        return comparison.logical_not(forbidden)
    total = _additive_mask(present[0], like)
    for mask in present[1:]:
        total = total + _additive_mask(mask, like)
    return total


def _additive_mask(mask: Any, like: Any) -> Any:
    """Convert a mask to numbers to add to the scores: minus infinity where a bool mask is True."""
    if mask.dtype == bool_:
        return elementwise.where(mask, np.asarray(-np.inf, like.dtype), np.asarray(0.0, like.dtype))
    return mask if mask.dtype == like.dtype else elementwise.cast(mask, dtype=like.dtype)


def reshape_mask(mask: Any, name: str, shapes: dict[tuple[Any, ...], tuple[Any, ...]], *, of: str) -> Any:
    """Reshape a mask by `shapes`, which maps each allowed shape to a new one; None stays None.

    Raises:
        TypeError: the mask isn't a tensor of bools or floating-point numbers (in uint8, any number but 0 is True).
        ValueError: the shape of the mask isn't allowed.
    """
    if mask is None:
        return None
    mask = as_tensor(mask, name, of=of)
    if mask.dtype == uint8:
        mask = elementwise.cast(mask, dtype=bool_)
    if mask.dtype != bool_ and not is_floating(mask.dtype):
        raise TypeError(f"For '{of}', '{name}' must be bool or floating-point, but got {dtype_name(mask.dtype)}")
    shape = checks.one_of(tuple(mask.shape), f"the shape of {name}", tuple(shapes), of=of)
    return shaping.reshape(mask, shape=shapes[shape])
