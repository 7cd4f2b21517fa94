"""Random draws, by torch's own generator: one seeded operator each, so that recorded draws can be replayed."""

from __future__ import annotations

from typing import Any

import torch

from ...capture.table import torch_dtype
from ..table import Context, torch_form


def _empty(context: Context, shape: Any) -> Any:
    return context.call(torch.empty, shape, dtype=torch_dtype(context.y.dtype), **context.placement())


@torch_form("bernoulli")
def _(context: Context, *, shape: Any, probability: float, dtype: Any) -> Any:
    return _empty(context, shape).bernoulli_(probability)


@torch_form("uniform")
def _(context: Context, *, shape: Any, low: float, high: float, dtype: Any) -> Any:
    return _empty(context, shape).uniform_(low, high)


@torch_form("normal")
def _(context: Context, *, shape: Any, mean: float, deviation: float, dtype: Any) -> Any:
    return _empty(context, shape).normal_(mean, deviation)


@torch_form("exponential")
def _(context: Context, *, shape: Any, rate: float, dtype: Any) -> Any:
    return _empty(context, shape).exponential_(rate)


@torch_form("integers")
def _(context: Context, *, shape: Any, low: int, high: int, dtype: Any) -> Any:
    return context.call(torch.randint, low, high, shape, dtype=torch_dtype(context.y.dtype), **context.placement())


@torch_form("bernoulli_each")
def _(context: Context, probability: Any) -> Any:
    return context.call(torch.bernoulli, probability)
