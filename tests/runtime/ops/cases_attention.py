"""Cases of the op table: attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.runtime.ops.cases import OpCase

Array = np.ndarray[Any, Any]
_random = np.random.default_rng(12)


def _normal(*shape: int) -> Array:
    return _random.standard_normal(shape)


def _weights(q: Any, k: Any, mask: Any = None, causal: bool = False, scale: float | None = None) -> torch.Tensor:
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    if mask is not None and mask.dtype == torch.bool:
        allowed = allowed & mask
    elif mask is not None:
        scores = scores + mask
    return torch._safe_softmax(scores.masked_fill(~allowed, -torch.inf), -1)


def _attention(causal: bool = False, scale: float | None = None) -> Any:
    def attention(q: Any, k: Any, v: Any, mask: Any = None, dropout_mask: Any = None) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)

    return attention


def _causal_and_masked(q: Any, k: Any, v: Any, mask: Any, dropout_mask: Any) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask & torch.ones_like(mask).tril())  # torch takes one of the two


def _with_dropout(dropout: float) -> Any:
    def attention(q: Any, k: Any, v: Any, mask: Any, dropout_mask: Any) -> torch.Tensor:
        kept = 0.0 if dropout == 1 else 1 / (1 - dropout)
        return _weights(q, k, mask) * dropout_mask * kept @ v

    return attention


def _qkv(batch: tuple[int, ...] = (2, 3), queries: int = 5, keys: int = 5, features: int = 4) -> tuple[Array, ...]:
    return _normal(*batch, queries, features), _normal(*batch, keys, features), _normal(*batch, keys, features + 2)


def _draws(*shape: int) -> Array:
    return (_random.random(shape) < 0.7).astype(np.float64)


_KEEP = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])
_LOWERED = np.where(_KEEP, _normal(3, 5), -np.inf)


def _and_weights(attention: Any, causal: bool = False, scale: float | None = None) -> Any:
    def both(q: Any, k: Any, v: Any, mask: Any = None, dropout_mask: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        return attention(q, k, v, mask, dropout_mask), _weights(q, k, mask, causal=causal, scale=scale)

    return both


def _case(
    name: str, inputs: tuple[Any, ...], torch_function: Any, op: str = "scaled_dot_product_attention", **attributes: Any
) -> OpCase:
    inputs = (*inputs, None, None)[:5]
    attributes = {"causal": False, **attributes}
    return OpCase(op, inputs, attributes, torch_function, name, undifferentiated=(4,))


def _case_with_weights(
    name: str, inputs: tuple[Any, ...], torch_function: Any, causal: bool = False, **attributes: Any
) -> OpCase:
    both = _and_weights(torch_function, causal, attributes.get("scale"))
    return _case(name, inputs, both, "attention_with_weights", causal=causal, **attributes)


CASES: list[OpCase] = [
    _case("plain", _qkv(), _attention()),
    _case("scale", _qkv((2,), 3, 4), _attention(scale=0.3), scale=0.3),
    _case("two-dimensions", _qkv((), 3, 4), _attention()),
    _case("causal", _qkv(), _attention(causal=True), causal=True),
    _case("causal-more-keys", _qkv(queries=3, keys=6), _attention(causal=True), causal=True),
    _case("causal-more-queries", _qkv(queries=6, keys=3), _attention(causal=True), causal=True),
    _case("boolean-mask", (*_qkv(queries=3), _KEEP), _attention()),
    _case("key-padding-mask", (*_qkv((2, 2), 3), _KEEP[:2, None, None, :]), _attention()),
    _case("added-mask", (*_qkv(queries=3), _normal(3, 5)), _attention()),
    _case("added-mask-per-head", (*_qkv(queries=3), _normal(1, 3, 3, 5)), _attention()),
    _case("mask-of-three-dimensions", (*_qkv(queries=3), _normal(3, 3, 5)), _attention()),
    _case("mask-for-all-queries", (*_qkv(queries=3), _normal(1, 5)), _attention()),
    _case("causal-mask", (*_qkv(), _KEEP[[0, 2, 1, 0, 2]]), _causal_and_masked, causal=True),
    _case("added-infinities", (*_qkv(queries=3), _LOWERED), _attention()),
    _case("broadcast-keys", (_normal(2, 3, 4, 5), _normal(1, 3, 6, 5), _normal(2, 1, 6, 5)), _attention()),
    _case("dropout", (*_qkv(queries=3), None, _draws(2, 3, 3, 5)), _with_dropout(0.3), dropout=0.3),
    _case("dropout-of-all", (*_qkv(queries=3), _normal(3, 5), np.zeros((2, 3, 3, 5))), _with_dropout(1.0), dropout=1.0),
    _case_with_weights("plain", _qkv((2,), 3, 4), _attention(scale=0.3), scale=0.3),
    _case_with_weights("causal", _qkv(), _attention(causal=True), causal=True),
    _case_with_weights("boolean-mask", (*_qkv(queries=3), _KEEP), _attention()),
    _case_with_weights("added-mask", (*_qkv(queries=3), _normal(3, 5)), _attention()),
    _case_with_weights("dropout", (*_qkv(queries=3), None, _draws(2, 3, 3, 5)), _with_dropout(0.3), dropout=0.3),
    OpCase("attention_weights", (*_qkv(queries=3, keys=4)[:2], None), {"causal": False}, _weights, "plain"),
    OpCase(
        "attention_weights",
        (*_qkv(queries=3, keys=4)[:2], None),
        {"causal": True, "scale": 0.7},
        lambda q, k, mask: _weights(q, k, causal=True, scale=0.7),
        "causal",
    ),
    OpCase("attention_weights", (*_qkv(queries=3)[:2], _KEEP), {"causal": False}, _weights, "boolean-mask"),
    OpCase("attention_weights", (*_qkv(queries=3)[:2], _normal(3, 5)), {"causal": False}, _weights, "added-mask"),
    OpCase(
        "attention_weights",
        (*_qkv(queries=3)[:2], _KEEP),
        {"causal": True},
        lambda q, k, mask: _weights(q, k, mask, causal=True),
        "causal-and-boolean-mask",
    ),
]
