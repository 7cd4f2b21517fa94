"""Cumulative ops along an axis."""

from __future__ import annotations

from typing import Any

import torch

from ...rows import Row
from ..calls import recurrence
from .reduction import same_dtype
from .table import Context, pass_on, torch_form


@torch_form("cumsum")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(torch.cumsum, x, axis, **same_dtype(context))


@torch_form("cumprod")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(torch.cumprod, x, axis, **same_dtype(context))


@torch_form("cummax")
def _(context: Context, x: Any, *, axis: int) -> Any:
    result = context.call(torch.cummax, x, axis)
    return result[0], result[1]


@torch_form("cummin")
def _(context: Context, x: Any, *, axis: int) -> Any:
    result = context.call(torch.cummin, x, axis)
    return result[0], result[1]


ROWS: dict[str, Row] = {
    "linear_recurrence": (recurrence.linear_recurrence, "factors, terms, axis"),
    "logcumsumexp": (torch.logcumsumexp, "x, axis"),
}
pass_on(ROWS)
