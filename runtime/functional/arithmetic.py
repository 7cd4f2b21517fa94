"""Sums, products, quotients, remainders and powers of two operands, which broadcast.

A Python number takes the dtype of the tensor operand; a float operand converts integer tensors to float32. See
`compound` for formulas with several operands.
"""

from __future__ import annotations

from typing import Any

from ..common.dtype import float64
from ..ir.types import is_floating
from ..ops import elementwise, rounding
from .operands import as_floating, as_numeric, as_tensor, promote_pair
from .public_op import argument_aliases, public_op, tensor_method

# ---- sums, products and quotients ----


@public_op(method="__add__", primitive=("Add", "TensorAdd"), alias="tensor_add")
def add(input: Any, other: Any) -> Any:
    """Sum, elementwise."""
    return elementwise.add(*promote_pair(input, other, of="add"))


@tensor_method("add")
def _add_scaled(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """`input + alpha * other`, elementwise."""
    return add(input, other if alpha == 1 else mul(other, alpha))


@public_op(method="__sub__", primitive="Sub", alias="tensor_sub")
def sub(input: Any, other: Any) -> Any:
    """Difference, elementwise."""
    return elementwise.sub(*promote_pair(input, other, of="sub"))


@public_op(method=("subtract", "sub"))
def subtract(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """`input - alpha * other`, elementwise."""
    return sub(input, other if alpha == 1 else mul(other, alpha))


@public_op(method=("mul", "multiply", "__mul__"), primitive="Mul", alias=("multiply", "tensor_mul"))
def mul(input: Any, other: Any) -> Any:
    """Product, elementwise."""
    return elementwise.mul(*promote_pair(input, other, of="mul"))


@public_op(
    method=("div", "divide", "true_divide", "__truediv__"),
    primitive=("Div", "RealDiv"),
    alias=("divide", "true_divide", "tensor_div"),
)
@argument_aliases(dividend="input", divisor="other", x="input", y="other")
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Quotient, elementwise; integers are converted to float32.

    `rounding_mode` "floor" or "trunc" rounds the quotient down or towards zero and keeps the dtype of the operands;
    `ValueError` for any other value.
    """
    if rounding_mode is None:
        a, b = promote_pair(input, other, of="div")
        return elementwise.div(as_floating(a, of="div"), as_floating(b, "other", of="div"))
    if rounding_mode not in ("floor", "trunc"):
        raise ValueError(f"For 'div', 'rounding_mode' must be None, 'floor' or 'trunc', but got {rounding_mode!r}")
    return floor_divide(input, other) if rounding_mode == "floor" else truncate_div(input, other)


@public_op(
    method=("floor_divide", "__floordiv__"),
    primitive="FloorDiv",
    alias=("floor_div", "floordiv", "tensor_floordiv"),
)
@argument_aliases(x="input", y="other")
def floor_divide(input: Any, other: Any) -> Any:
    """Quotient rounded down, elementwise, in the dtype of the operands; `ZeroDivisionError` for integers by 0."""
    a, b = _number_pair(input, other, of="floor_divide")
    return rounding.floor_divide(a, b)


@public_op(primitive="TruncateDiv")
def truncate_div(x: Any, y: Any) -> Any:
    """Quotient rounded towards zero, elementwise, in the dtype of the operands."""
    a, b = _number_pair(x, y, of="truncate_div")
    if is_floating(a.dtype):
        return rounding.trunc(elementwise.div(a, b))
    return rounding.floor_divide(elementwise.sub(a, rounding.fmod(a, b)), b)


@public_op(
    method=("remainder", "__mod__"),
    primitive="FloorMod",
    alias=("floor_mod", "floormod", "tensor_mod"),
)
@argument_aliases(x="input", y="other")
def remainder(input: Any, other: Any) -> Any:
    """The remainder of `floor_divide`, elementwise, with the sign of `other`."""
    a, b = _number_pair(input, other, of="remainder")
    return rounding.remainder(a, b)


@public_op(method="fmod", primitive=("Mod", "TruncateMod"), alias="truncate_mod")
@argument_aliases(x="input", y="other")
def fmod(input: Any, other: Any) -> Any:
    """The remainder of `truncate_div`, elementwise, with the sign of `input`."""
    a, b = _number_pair(input, other, of="fmod")
    return rounding.fmod(a, b)


# ---- signs and powers ----


@public_op(method=("neg", "negative", "__neg__"), primitive="Neg", alias="negative")
def neg(input: Any) -> Any:
    """Negation, elementwise."""
    return elementwise.neg(as_numeric(input, of="neg"))


@public_op(method=("positive", "__pos__"))
def positive(input: Any) -> Any:
    """`input` itself."""
    return as_tensor(input, of="positive")


@public_op(method=("pow", "__pow__"), primitive="Pow", alias=("pows", "tensor_pow"))
def pow(input: Any, exponent: Any) -> Any:
    """`input` to the power of `exponent`, elementwise; an integer to a negative power is truncated."""
    a, b = _number_pair(input, exponent, of="pow")
    if isinstance(exponent, (int, float)) and exponent == 2:
        return elementwise.mul(a, a)  # its gradient needs no power and no logarithm
    return elementwise.pow(a, b)


@public_op(method="float_power")
def float_power(input: Any, exponent: Any) -> Any:
    """`input` to the power of `exponent`, elementwise, in float64."""
    a, b = promote_pair(input, exponent, of="float_power")
    return elementwise.pow(elementwise.cast(a, dtype=float64), elementwise.cast(b, dtype=float64))


@public_op(method="square", primitive="Square")
def square(input: Any) -> Any:
    """`input` times itself, elementwise."""
    x = as_numeric(input, of="square")
    return elementwise.mul(x, x)


# ---- maximum and minimum ----


@public_op(method="maximum", primitive="Maximum")
def maximum(input: Any, other: Any) -> Any:
    """Maximum of two operands, elementwise; NaN if either is NaN. Equal elements get half of the gradient each."""
    return elementwise.maximum(*promote_pair(input, other, of="maximum"))


@public_op(method="minimum", primitive="Minimum")
def minimum(input: Any, other: Any) -> Any:
    """Minimum of two operands, elementwise; NaN if either is NaN. Equal elements get half of the gradient each."""
    return elementwise.minimum(*promote_pair(input, other, of="minimum"))


def _number_pair(a: Any, b: Any, *, of: str) -> tuple[Any, Any]:
    """Convert two operands to the dtype in which an operator on numbers computes: bools become int64."""
    a, b = promote_pair(a, b, of=of)
    return as_numeric(a, of=of), as_numeric(b, "other", of=of)
