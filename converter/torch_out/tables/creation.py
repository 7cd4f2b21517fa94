"""Creation of tensors."""

from __future__ import annotations

from typing import Any

import torch

from ...dtypes import torch_dtype
from .table import Context, torch_form


@torch_form("full")
def _(context: Context, *, shape: Any, value: Any, dtype: Any) -> Any:
    return context.call(torch.full, shape, value, dtype=torch_dtype(context.y.dtype), **context.placement())


@torch_form("arange")
def _(context: Context, *, start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    return context.call(torch.arange, start, stop, step, dtype=torch_dtype(context.y.dtype), **context.placement())
