"""Cumulative ops along an axis."""

from __future__ import annotations

from typing import Any

import torch

from ..calls import recurrence
from .reduction import same_dtype
from .table import Context, torch_form


@torch_form("cumsum")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(torch.cumsum, x, axis, **same_dtype(context))


@torch_form("cumprod")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(torch.cumprod, x, axis, **same_dtype(context))


@torch_form("linear_recurrence")
def _(context: Context, factors: Any, terms: Any, *, axis: int) -> Any:
    return context.call(recurrence.linear_recurrence, factors, terms, axis)


@torch_form("logcumsumexp")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(torch.logcumsumexp, x, axis)


@torch_form("cummax")
def _(context: Context, x: Any, *, axis: int) -> Any:
    result = context.call(torch.cummax, x, axis)
    return result[0], result[1]


@torch_form("cummin")
def _(context: Context, x: Any, *, axis: int) -> Any:
    result = context.call(torch.cummin, x, axis)
    return result[0], result[1]
