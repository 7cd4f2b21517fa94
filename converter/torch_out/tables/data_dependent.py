"""Ops whose output sizes are known only when they run."""

from __future__ import annotations

from typing import Any

import torch

from ...rows import Row
from ..calls import functions
from .table import Context, pass_on, torch_form


@torch_form("read_sizes")
def _(context: Context, x: Any, *, symbols: tuple[str, ...]) -> Any:
    return x


@torch_form("unique")
def _(context: Context, x: Any, *, symbols: tuple[str, ...], axis: int | None, sorted: bool) -> Any:
    result = context.call(functions.unique, x, axis, sorted)
    return tuple(result[i] for i in range(4))


ROWS: dict[str, Row] = {
    "nonzero": (torch.nonzero, "x"),
}
pass_on(ROWS)
