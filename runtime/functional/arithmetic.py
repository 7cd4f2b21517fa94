"""Sums, products, quotients and powers of tensors."""

from __future__ import annotations

from typing import Any

from ..ops import elementwise, rounding
from .operands import floats, numbers, pair
from .spelling import spelled


@spelled(method=("add", "__add__"), primitive=("Add", "TensorAdd"), alias="tensor_add")
def add(input: Any, other: Any) -> Any:
    """Sum, elementwise, of operands that broadcast."""
    return elementwise.add(*pair(input, other, of="add"))


@spelled(method=("sub", "subtract", "__sub__"), primitive="Sub", alias=("subtract", "tensor_sub"))
def sub(input: Any, other: Any) -> Any:
    """Difference, elementwise, of operands that broadcast."""
    return elementwise.sub(*pair(input, other, of="sub"))


@spelled(method=("mul", "multiply", "__mul__"), primitive="Mul", alias=("multiply", "tensor_mul"))
def mul(input: Any, other: Any) -> Any:
    """Product, elementwise, of operands that broadcast."""
    return elementwise.mul(*pair(input, other, of="mul"))


@spelled(
    method=("div", "divide", "true_divide", "__truediv__"),
    primitive=("Div", "RealDiv"),
    alias=("divide", "true_divide", "tensor_div"),
)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Quotient, elementwise, of operands that broadcast; of integers in float32.

    `rounding_mode` "floor" or "trunc" rounds the quotient down or towards zero and keeps the dtype of the operands;
    `ValueError` for another.
    """
    a, b = pair(input, other, of="div")
    if rounding_mode == "floor":
        return rounding.floor_divide(a, b)
    quotient = elementwise.div(floats(a, of="div"), floats(b, "other", of="div"))
    if rounding_mode is None:
        return quotient
    if rounding_mode != "trunc":
        raise ValueError(f"For 'div', 'rounding_mode' must be None, 'floor' or 'trunc', but got {rounding_mode!r}")
    return elementwise.cast(rounding.trunc(quotient), dtype=a.dtype)


@spelled(method=("pow", "__pow__"), primitive="Pow", alias="tensor_pow")
def pow(input: Any, exponent: Any) -> Any:
    """`input` to the power of `exponent`, elementwise."""
    a, b = pair(input, exponent, of="pow")
    return elementwise.pow(a if hasattr(a, "apply") else numbers(a, of="pow"), b)


@spelled(method=("neg", "negative", "__neg__"), primitive="Neg", alias="negative")
def neg(input: Any) -> Any:
    """Minus `input`, elementwise."""
    return elementwise.neg(numbers(input, of="neg"))
