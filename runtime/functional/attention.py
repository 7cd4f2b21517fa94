"""Multi-head attention (Vaswani et al. 2017, section 3.2) between projections that are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import bool_, shown, uint8
from ..ir.types import is_floating
from ..ops import attention, comparison, elementwise, random, shaping
from ..ops.linear import matmul
from .dropout import dropout as drop
from .operands import as_tensor


def attend(
    q: Any, k: Any, v: Any, mask: Any = None, *, dropout: float = 0.0, need_weights: bool = False
) -> tuple[Any, Any]:
    """What each query reads from the values, and the weights by which it does.

    Args:
        q: queries, (batch, heads, queries, features).
        k: keys, (batch, heads, keys, features).
        v: values, (batch, heads, keys, features).
        mask: as `joined_masks` gives it; a query that may attend to no key reads 0.
        dropout: probability with which a weight is dropped.
        need_weights: whether the weights are wanted; without them it is faster.

    Returns:
        (batch, heads, queries, features), and (batch, heads, queries, keys) or None.
    """
    if need_weights:
        weights = attention.attention_weights(q, k, mask, causal=False)
        weights = drop(weights, dropout) if dropout else weights
        return matmul(weights, v), weights
    shape = (*q.shape[:-1], k.shape[-2])
    kept = random.random_like(q, random.bernoulli, shape, probability=1.0 - dropout) if dropout else None
    return attention.scaled_dot_product_attention(q, k, v, mask, kept, causal=False, dropout=dropout), None


def joined_masks(*masks: Any, like: Any) -> Any:
    """Masks that broadcast to (batch, heads, queries, keys), as one for the attention ops; None for None.

    Given are bools, True where a query must not attend, or numbers that are added to the scores. What comes out is bool
    (True: may attend) if all are, else has the dtype of `like`.
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    if all(mask.dtype == bool_ for mask in given):
        forbidden = given[0]
        for mask in given[1:]:
            forbidden = comparison.logical_or(forbidden, mask)
        return comparison.logical_not(forbidden)
    total = _added(given[0], like)
    for mask in given[1:]:
        total = total + _added(mask, like)
    return total


def _added(mask: Any, like: Any) -> Any:
    """A mask as numbers to add: minus infinity where a bool one forbids."""
    if mask.dtype == bool_:
        return elementwise.where(mask, np.asarray(-np.inf, like.dtype), np.asarray(0.0, like.dtype))
    return mask if mask.dtype == like.dtype else elementwise.cast(mask, dtype=like.dtype)


def mask_in_shape(mask: Any, name: str, shapes: dict[tuple[Any, ...], tuple[Any, ...]], *, of: str) -> Any:
    """A mask of one of the shapes that are the keys, in the shape that stands there; None for None.

    Raises:
        TypeError: it isn't a tensor of bools or floating-point numbers (of uint8, all but 0 counts as True).
        ValueError: it has another shape.
    """
    if mask is None:
        return None
    mask = as_tensor(mask, name, of=of)
    if mask.dtype == uint8:
        mask = elementwise.cast(mask, dtype=bool_)
    if mask.dtype != bool_ and not is_floating(mask.dtype):
        raise TypeError(f"For '{of}', '{name}' must be bool or floating-point, but got {shown(mask.dtype)}")
    shape = checks.one_of(tuple(mask.shape), f"the shape of {name}", tuple(shapes), of=of)
    return shaping.reshape(mask, shape=shapes[shape])
