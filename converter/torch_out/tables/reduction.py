"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ....runtime.ir.types import is_floating
from ....runtime.ops.common import normalize_axes
from ...dtypes import torch_dtype
from .table import Context, torch_form

FUNCTIONS: dict[str, Any] = {
    "reduce_mean": torch.mean,
    "reduce_max": torch.amax,
    "reduce_min": torch.amin,
    "reduce_any": torch.any,
    "reduce_all": torch.all,
    "logsumexp": torch.logsumexp,
}


def _reduce(
    context: Context, function: Callable[..., Any], x: Any, axes: tuple[int, ...] | None, keepdims: bool, **options: Any
) -> Any:
    """Apply `function` over axes. For no axes, it reduces an added axis: torch takes an empty list as all axes."""
    at = normalize_axes(axes, context.x.rank)
    if not at:
        return context.call(function, x.unsqueeze(-1), (-1,), **options)
    return context.call(function, x, at, keepdim=keepdims, **options)


def _register_reduction(op: str, function: Callable[..., Any]) -> None:
    @torch_form(op)
    def form(context: Context, x: Any, *, axes: tuple[int, ...] | None, keepdims: bool) -> Any:
        return _reduce(context, function, x, axes, keepdims)


for _op, _function in FUNCTIONS.items():
    _register_reduction(_op, _function)


def same_dtype(context: Context) -> dict[str, Any]:
    """The keyword argument that keeps the dtype of integers, which torch would widen to int64."""
    return {} if is_floating(context.x.dtype) else {"dtype": torch_dtype(context.x.dtype)}


@torch_form("reduce_sum")
def _(context: Context, x: Any, *, axes: tuple[int, ...] | None, keepdims: bool) -> Any:
    return _reduce(context, torch.sum, x, axes, keepdims, **same_dtype(context))


@torch_form("reduce_prod")
def _(context: Context, x: Any, *, axes: tuple[int, ...] | None, keepdims: bool) -> Any:
    for axis in normalize_axes(axes, context.x.rank)[::-1]:  # torch multiplies along one axis at a time
        x = context.call(torch.prod, x, axis, keepdim=keepdims, **same_dtype(context))
    return x


@torch_form("variance")
def _(context: Context, x: Any, *, axes: tuple[int, ...] | None, correction: int, keepdims: bool) -> Any:
    return _reduce(context, torch.var, x, axes, keepdims, correction=correction)
