"""Sorting: positions of extremes, sorting, the largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ....runtime.ir.types import BOOL
from .table import Context, torch_form


def _extremum(op: str, function: Callable[..., Any]) -> None:
    @torch_form(op)
    def form(context: Context, x: Any, *, axis: int | None, keepdims: bool) -> Any:
        if context.x.dtype == BOOL:
            x = x.to(torch.uint8)
        if axis is None and keepdims:
            return context.call(function, x).reshape((1,) * context.x.rank)
        return context.call(function, x, axis, keepdims)


_extremum("argmax", torch.argmax)
_extremum("argmin", torch.argmin)


@torch_form("sort")
def _(context: Context, x: Any, *, axis: int, descending: bool) -> Any:
    result = context.call(torch.sort, x, dim=axis, descending=descending, stable=True)
    return result[0], result[1]


@torch_form("topk")
def _(context: Context, x: Any, *, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    result = context.call(torch.topk, x, k, axis, largest, sorted)
    return result[0], result[1]
