"""Normalization."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ...rows import Row
from .table import Context, pass_on, torch_form


@torch_form("layer_norm")
def _(context: Context, x: Any, weight: Any, bias: Any, *, axes_count: int, eps: float) -> Any:
    return context.call(F.layer_norm, x, context.last_sizes(axes_count), weight, bias, eps)


@torch_form("rms_norm")
def _(context: Context, x: Any, weight: Any, *, axes_count: int, eps: float) -> Any:
    return context.call(F.rms_norm, x, context.last_sizes(axes_count), weight, eps)


@torch_form("standardize")
def _(context: Context, x: Any, *, axes_count: int, eps: float) -> Any:
    return _standardize(context, x, axes_count, eps)


@torch_form("batch_norm")
def _(context: Context, x: Any, mean: Any, variance: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    if all(context.fixed[1:3]):
        return context.call(F.batch_norm, x, mean, variance, weight, bias, False, 0.0, eps)
    # torch's own function passes no gradient to the statistics
    along = (-1, *(1,) * (context.x.rank - 2))
    y = (x - mean.reshape(along)) * context.call(torch.rsqrt, variance + eps).reshape(along)
    y = y if weight is None else y * weight.reshape(along)
    return y if bias is None else y + bias.reshape(along)


@torch_form("batch_norm_train")
def _(context: Context, x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """The statistics are computed separately, since torch's own have no gradient."""
    y = context.call(torch.batch_norm, x, weight, bias, None, None, True, 0.0, eps, True)
    axes = (0, *range(2, context.x.rank))
    return (
        y,
        context.call(torch.mean, x, axes) if context.used[1] else None,
        context.call(torch.var, x, axes, correction=0) if context.used[2] else None,
    )


@torch_form("layer_norm_with_statistics")
def _(context: Context, x: Any, weight: Any, bias: Any, *, axes_count: int, eps: float) -> Any:
    standardized, r = _standardize(context, x, axes_count, eps)
    return _affine(standardized, weight, bias), standardized, r


@torch_form("rms_norm_with_statistics")
def _(context: Context, x: Any, weight: Any, *, axes_count: int, eps: float) -> Any:
    squares = x.square().mean(tuple(range(-axes_count, 0)), keepdim=True)
    r = context.call(torch.rsqrt, squares + eps)
    return _affine(x * r, weight, None), x * r, r


@torch_form("group_norm_with_statistics")
def _(context: Context, x: Any, weight: Any, bias: Any, *, groups: int, eps: float) -> Any:
    standardized, r = _standardize(context, x.flatten(1).unflatten(1, (groups, -1)), 1, eps)
    along = (-1, *(1,) * (context.x.rank - 2))
    of_channels = (None if v is None else v.reshape(along) for v in (weight, bias))
    return _affine(standardized.reshape_as(x), *of_channels), standardized, r


def _standardize(context: Context, x: Any, axes_count: int, eps: float) -> tuple[Any, Any]:
    axes = tuple(range(-axes_count, 0))
    centered = x - x.mean(axes, keepdim=True)
    r = context.call(torch.rsqrt, x.var(axes, correction=0, keepdim=True) + eps)
    return centered * r, r


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


ROWS: dict[str, Row] = {
    "group_norm": (torch.group_norm, "x, groups, weight, bias, eps"),
}
pass_on(ROWS)
