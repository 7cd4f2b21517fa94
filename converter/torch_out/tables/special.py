"""Special functions, and the mantissa and exponent of floating-point numbers."""

from __future__ import annotations

from typing import Any

import torch

from ...rows import Row
from .table import Context, pass_on, torch_form


@torch_form("frexp")
def _(context: Context, x: Any) -> Any:
    result = context.call(torch.frexp, x)
    return result[0], result[1]


ROWS: dict[str, Row] = {
    "searchsorted": (torch.searchsorted, "boundaries, x, right=right"),
}
pass_on(ROWS)
