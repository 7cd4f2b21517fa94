"""Random numbers from torch's generator: one seeded operator per op, so that recorded numbers can be replayed."""

from __future__ import annotations

from typing import Any

import torch

from ...dtypes import torch_dtype
from ...rows import Row
from .table import Context, pass_on, torch_form


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


@torch_form("cauchy")
def _(context: Context, *, shape: Any, median: float, scale: float, dtype: Any) -> Any:
    return _empty(context, shape).cauchy_(median, scale)


@torch_form("geometric")
def _(context: Context, *, shape: Any, probability: float, dtype: Any) -> Any:
    return _empty(context, shape).geometric_(probability)


@torch_form("log_normal")
def _(context: Context, *, shape: Any, mean: float, deviation: float, dtype: Any) -> Any:
    return _empty(context, shape).log_normal_(mean, deviation)


@torch_form("random_permutation")
def _(context: Context, *, size: Any, dtype: Any) -> Any:
    return context.call(torch.randperm, size, dtype=torch_dtype(context.y.dtype), **context.placement())


ROWS: dict[str, Row] = {
    "bernoulli_each": (torch.bernoulli, "probability"),
    "normal_each": (torch.normal, "mean, deviation"),
    "poisson": (torch.poisson, "rate"),
    "binomial": (torch.binomial, "count, probability"),
    "multinomial": (torch.multinomial, "weights, count, replacement"),
}
pass_on(ROWS)
