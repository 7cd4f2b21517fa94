"""Rounding to integers, elementwise. Integers and bools stay unchanged."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ir.types import is_floating
from ..ops import elementwise, rounding
from ..ops.registry import Op
from .operands import as_tensor
from .public_op import public_op


@public_op(method="floor", primitive="Floor")
def floor(input: Any) -> Any:
    """The largest integer not above `input`."""
    return _round(rounding.floor, input)


@public_op(method="ceil", primitive="Ceil")
def ceil(input: Any) -> Any:
    """The smallest integer not below `input`."""
    return _round(rounding.ceil, input)


@public_op(method="trunc", primitive="Trunc")
def trunc(input: Any) -> Any:
    """`input` rounded towards 0."""
    return _round(rounding.trunc, input)


@public_op(method=("round", "__round__"), primitive=("Round", "Rint"))
def round(input: Any, decimals: int = 0) -> Any:
    """`input` rounded to `decimals` decimal places; ties are rounded to even."""
    checks.of_type(decimals, "decimals", int, of="round")
    if decimals == 0:
        return _round(rounding.round, input)
    x = as_tensor(input, of="round")
    if not is_floating(x.dtype) and decimals > 0:
        return x
    power = 10.0 ** (decimals if decimals > 0 else -decimals)
    rounded = rounding.round(x * power) / power if decimals > 0 else rounding.round(x / power) * power
    return elementwise.cast(rounded, dtype=x.dtype)


@public_op(method="frac")
def frac(x: Any) -> Any:
    """The fractional part, `x - trunc(x)`, with the sign of `x`."""
    return x - trunc(x)


def _round(op: Op, input: Any) -> Any:
    x = as_tensor(input, of=op.name)
    return op(x) if is_floating(x.dtype) else x
