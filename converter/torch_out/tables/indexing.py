"""Reading and writing at computed indices."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F

from ....runtime.ir.types import INT32, INT64
from ....runtime.ops.common import normalize_axis
from ..calls import functions
from .table import Context, torch_form


def _as_index(context: Context, indices: Any, position: int = 1) -> Any:
    """Indices in a dtype that torch takes as indices; it would take 8-bit ones as a mask."""
    type = context.inputs[position]
    assert type is not None
    return indices if type.dtype in (INT32, INT64) else indices.to(torch.int64)


def _as_int64(context: Context, indices: Any, position: int = 1) -> Any:
    type = context.inputs[position]
    assert type is not None
    return indices if type.dtype == INT64 else indices.to(torch.int64)


@torch_form("take")
def _(context: Context, x: Any, indices: Any, *, axis: int) -> Any:
    at = normalize_axis(axis, context.x.rank)
    return context.call(operator.getitem, x, (*(slice(None),) * at, _as_index(context, indices)))


@torch_form("embedding")
def _(context: Context, weight: Any, indices: Any, *, padding_index: int | None) -> Any:
    return context.call(F.embedding, _as_index(context, indices), weight, padding_index)


@torch_form("index_add")
def _(context: Context, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    at = normalize_axis(axis, context.x.rank)
    return context.call(functions.index_add, x, _as_int64(context, indices), updates, at)


@torch_form("gather")
def _(context: Context, x: Any, indices: Any, *, axis: int) -> Any:
    return context.call(functions.gather, x, _as_int64(context, indices), axis) if context.x.rank else x


@torch_form("scatter")
def _(context: Context, x: Any, indices: Any, updates: Any, *, axis: int, reduction: str) -> Any:
    return context.call(functions.scatter, x, _as_int64(context, indices), updates, axis, reduction)


def _coordinates(context: Context, indices: Any) -> tuple[Any, ...]:
    """The indices for each of the first axes."""
    type = context.inputs[1]
    assert type is not None
    depth = type.shape[-1]
    assert isinstance(depth, int)
    indices = _as_index(context, indices)
    return tuple(indices[..., axis] for axis in range(depth))


@torch_form("gather_nd")
def _(context: Context, x: Any, indices: Any) -> Any:
    return context.call(operator.getitem, x, _coordinates(context, indices))


@torch_form("scatter_nd")
def _(context: Context, x: Any, indices: Any, updates: Any, *, reduction: str) -> Any:
    if reduction in ("none", "add"):
        return context.call(torch.index_put, x, _coordinates(context, indices), updates, reduction == "add")
    return context.call(functions.scatter_nd, x, _as_int64(context, indices), updates, reduction)
