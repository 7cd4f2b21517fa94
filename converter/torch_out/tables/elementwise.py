"""Arithmetic, exponentials, trigonometry, rounding, choice and conversion."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ....runtime.ir.types import as_dtype, is_floating
from ...dtypes import torch_dtype
from ...rows import Row
from ...torch_version import has_change
from ..calls.functions import clamp_exclusive, clamp_inclusive
from .table import Context, pass_on, torch_form, torch_function

OPERATORS: dict[str, Any] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
}
for _op, _function in OPERATORS.items():
    torch_function(_op, _function, numbers=True)
torch_function("fmod", torch.fmod)
torch_function("neg", operator.neg)


@torch_form("pow", numbers=True)
def _(context: Context, a: Any, b: Any) -> Any:
    """Pass a negative integer exponent as a tensor, since torch raises for a negative Python number.

    `torch.pow` is called because the text of an operator has no parentheses: `-2.0 ** x` is -(2 ** x).
    """
    if isinstance(b, int) and b < 0:
        b = context.call(torch.full, (), b, dtype=torch_dtype(context.y.dtype))
    return context.call(torch.pow, a, b)


@torch_form("where", numbers=True)
def _(context: Context, condition: Any, a: Any, b: Any) -> Any:
    return context.call(torch.where, condition, a, b)


@torch_form("clamp")
def _(context: Context, x: Any, *, minimum: float | None, maximum: float | None, inclusive: bool) -> Any:
    """`torch.clamp` if its gradient at the bounds, which changed in torch 2.14, is the op's."""
    is_float = is_floating(context.x.dtype)
    bounds = {"min": minimum, "max": maximum}
    numbers = {name: (float if is_float else int)(bound) for name, bound in bounds.items() if bound is not None}
    if not numbers:
        return x
    if not is_float or inclusive is not has_change("gradient at bounds"):
        return context.call(torch.clamp, x, **numbers)
    return context.call(clamp_inclusive if inclusive else clamp_exclusive, x, **numbers)


@torch_form("hardtanh")
def _(context: Context, x: Any, *, minimum: float, maximum: float) -> Any:
    kind = float if is_floating(context.x.dtype) else int
    return context.call(F.hardtanh, x, kind(minimum), kind(maximum))


@torch_form("cast")
def _(context: Context, x: Any, *, dtype: Any) -> Any:
    return x.to(torch_dtype(context.y.dtype))


@torch_form("boundary")
def _(context: Context, x: Any, *, call: int, kind: str, slot: str) -> Any:
    return x


@torch_form("stop_gradient")
def _(context: Context, x: Any) -> Any:
    return x.detach()


@torch_form("bitcast")
def _(context: Context, x: Any, *, dtype: np.dtype[Any]) -> Any:
    return x.view(torch_dtype(as_dtype(dtype)))


ROWS: dict[str, Row] = {
    "polygamma": (torch.polygamma, "order, x"),
}
pass_on(ROWS)
