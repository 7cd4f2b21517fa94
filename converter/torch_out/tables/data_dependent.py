"""Ops whose output sizes are known only when they run."""

from __future__ import annotations

from typing import Any

import torch

from ..calls import functions
from .table import Context, torch_form


@torch_form("read_sizes")
def _(context: Context, x: Any, *, symbols: tuple[str, ...]) -> Any:
    return x


@torch_form("nonzero")
def _(context: Context, x: Any, *, symbols: tuple[str, ...]) -> Any:
    return context.call(torch.nonzero, x)


@torch_form("unique")
def _(context: Context, x: Any, *, symbols: tuple[str, ...], axis: int | None, sorted: bool) -> Any:
    result = context.call(functions.unique, x, axis, sorted)
    return tuple(result[i] for i in range(4))
