"""ATen elementwise functions: arithmetic, powers, exponentials.

Bounds and selection are in `choice`, comparisons and logic in `comparison`.
"""

from __future__ import annotations

from typing import Any

from ....runtime import ops
from ....runtime.ir.types import FLOAT64, at_least_float32, is_floating
from ....runtime.ops import comparison, elementwise, float_parts, rounding, trigonometry
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...torch_version import has_change
from .table import Context, aten, cast, dtype_beside, operands, pass_on

# ---- functions of one operand ----


@aten("aten.sign.default", "aten.sgn.default")
def sign(context: Context, self: SymbolicTensor) -> Any:
    """sign(Tensor self) -> Tensor; sgn(Tensor self) -> Tensor"""
    return self if self.dtype.kind == "b" else elementwise.sign(self)


@aten("aten.exp2.default")
def exp2(context: Context, self: SymbolicTensor) -> Any:
    """exp2(Tensor self) -> Tensor"""
    x = cast(self, context.dtype)
    return elementwise.pow(*operands(context, x.dtype, 2.0, x))


@aten("aten.signbit.default")
def signbit(context: Context, self: SymbolicTensor) -> Any:
    """signbit(Tensor self) -> Tensor"""
    return self if self.dtype.kind == "b" else float_parts.signbit(self)


@aten("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(context: Context, self: SymbolicTensor, other: Any) -> Any:
    """copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    x, like = operands(context, context.dtype, self, other)
    size = elementwise.abs(x)
    return elementwise.where(float_parts.signbit(like), -size, size)


@aten("aten.round.decimals")
def round_decimals(context: Context, self: SymbolicTensor, *, decimals: int) -> Any:
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    ten = 10.0 ** abs(decimals)
    return rounding.round(self * ten) / ten if decimals >= 0 else rounding.round(self / ten) * ten


@aten("aten.sinc.default", "aten.special_sinc.default")
def sinc(context: Context, self: SymbolicTensor) -> Any:
    """sinc(Tensor self) -> Tensor: sin(pi x) / (pi x), and 1 at 0, with the gradient 0 there"""
    return cast(trigonometry.sinc(cast(self, at_least_float32(context.dtype))), context.dtype)


# ---- arithmetic ----


def _scale(context: Context, x: SymbolicTensor, alpha: Any) -> Any:
    return x if alpha == 1 else elementwise.mul(*operands(context, x.dtype, x, alpha))


@aten("aten.add.Tensor", "aten.add.Scalar")
def add(context: Context, self: Any, other: Any, alpha: Any = 1) -> Any:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    a, b = operands(context, context.dtype, self, other)
    return elementwise.add(a, _scale(context, b, alpha))


@aten("aten.sub.Tensor", "aten.sub.Scalar")
def sub(context: Context, self: Any, other: Any, alpha: Any = 1) -> Any:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    a, b = operands(context, context.dtype, self, other)
    return elementwise.sub(a, _scale(context, b, alpha))


@aten("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(context: Context, self: Any, other: Any, alpha: Any = 1) -> Any:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return sub(context, other, self, alpha)


@aten("aten.mul.Tensor", "aten.mul.Scalar")
def mul(context: Context, self: Any, other: Any) -> Any:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = dtype_beside(context, self, other)
    return cast(elementwise.mul(*operands(context, dtype, self, other)), context.dtype)


@aten("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar")
def div(context: Context, self: Any, other: Any) -> Any:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    dtype = dtype_beside(context, other)
    return cast(elementwise.div(*operands(context, dtype, self, other)), context.dtype)


@aten("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(context: Context, self: Any, other: Any, *, rounding_mode: str | None) -> Any:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    if rounding_mode is None:
        return div(context, self, other)
    if rounding_mode == "floor":
        return floor_divide(context, self, other)
    a, b = operands(context, dtype_beside(context, other), self, other)
    if is_floating(a.dtype):
        return cast(rounding.trunc(elementwise.div(a, b)), context.dtype)
    # a - fmod(a, b) is a multiple of b, so that rounding the quotient down is rounding it towards zero
    return rounding.floor_divide(a - rounding.fmod(a, b), b)


@aten("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(context: Context, self: Any, other: Any) -> Any:
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    dtype = dtype_beside(context, other)
    return cast(rounding.floor_divide(*operands(context, dtype, self, other)), context.dtype)


@aten("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(context: Context, self: Any, other: Any) -> Any:
    """fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    return rounding.fmod(*operands(context, context.dtype, self, other))


@aten("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(context: Context, self: Any, other: Any) -> Any:
    """remainder.Tensor(Tensor self, Tensor other) -> Tensor"""
    return rounding.remainder(*operands(context, context.dtype, self, other))


@aten("aten.maximum.default", "aten.max.other")
def maximum(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """maximum(Tensor self, Tensor other) -> Tensor"""
    return elementwise.maximum(*operands(context, context.dtype, self, other))


@aten("aten.minimum.default", "aten.min.other")
def minimum(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """minimum(Tensor self, Tensor other) -> Tensor"""
    return elementwise.minimum(*operands(context, context.dtype, self, other))


@aten("aten.fmax.default")
def fmax(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """fmax(Tensor self, Tensor other) -> Tensor"""
    return _first_if(context, comparison.greater_equal, self, other)


@aten("aten.fmin.default")
def fmin(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """fmin(Tensor self, Tensor other) -> Tensor"""
    return _first_if(context, comparison.less_equal, self, other)


def _first_if(context: Context, holds: ops.Op, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """The first operand, with the whole gradient, where the condition holds or the second is NaN; else the second.

    Since torch 2.14, equal operands share the gradient.
    """
    a, b = operands(context, context.dtype, self, other)
    first = holds(a, b)
    if is_floating(b.dtype):
        first = comparison.logical_or(first, comparison.isnan(b))
    chosen = elementwise.where(first, a, b)
    if not (has_change("gradient of equal operands") and is_floating(b.dtype)):
        return chosen
    return elementwise.where(comparison.equal(a, b), elementwise.maximum(a, b), chosen)


@aten("aten.addcmul.default")
def addcmul(
    context: Context, self: SymbolicTensor, tensor1: SymbolicTensor, tensor2: SymbolicTensor, *, value: Any = 1
) -> Any:
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    x, a, b = operands(context, at_least_float32(context.dtype), self, tensor1, tensor2)
    return cast(x + _scale(context, a * b, value), context.dtype)


@aten("aten.addcdiv.default")
def addcdiv(
    context: Context, self: SymbolicTensor, tensor1: SymbolicTensor, tensor2: SymbolicTensor, *, value: Any = 1
) -> Any:
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    x, a, b = operands(context, at_least_float32(context.dtype), self, tensor1, tensor2)
    return cast(x + _scale(context, a / b, value), context.dtype)


@aten("aten.lerp.Tensor", "aten.lerp.Scalar")
def lerp(context: Context, self: SymbolicTensor, end: SymbolicTensor, weight: Any) -> Any:
    """lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    x, end, weight = operands(context, at_least_float32(context.dtype), self, end, weight)
    return cast(x + weight * (end - x), context.dtype)


# ---- powers and logarithms of two operands ----


@aten("aten.pow.Tensor_Scalar")
def pow_scalar(context: Context, self: SymbolicTensor, exponent: Any) -> Any:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    x = cast(self, context.dtype)
    if exponent == 1:
        return x
    if exponent == 2:
        return elementwise.mul(x, x)
    if exponent in _ROOTS and is_floating(x.dtype):
        return ops.get(_ROOTS[exponent])(x)
    return elementwise.pow(*operands(context, x.dtype, x, exponent))


_ROOTS = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}


@aten("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow(context: Context, self: Any, exponent: SymbolicTensor) -> Any:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor; pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    return elementwise.pow(*operands(context, context.dtype, self, exponent))


@aten("aten.logaddexp.default")
def logaddexp(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """logaddexp(Tensor self, Tensor other) -> Tensor"""
    a, b = operands(context, at_least_float32(context.dtype), self, other)
    # the difference of equal infinities would be NaN
    difference = elementwise.where(comparison.equal(a, b), *operands(context, a.dtype, 0.0), a - b)
    larger = elementwise.maximum(a, b)
    return cast(larger + elementwise.log1p(elementwise.exp(-elementwise.abs(difference))), context.dtype)


@aten("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other")
def xlogy(context: Context, self: Any, other: Any) -> Any:
    """xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    a, b = operands(context, context.dtype, self, other)
    zero, one = operands(context, context.dtype, 0.0, 1.0)
    nothing = comparison.logical_and(comparison.equal(a, zero), comparison.less_equal(b, zero))
    return elementwise.where(nothing, zero, a * elementwise.log(elementwise.where(nothing, one, b)))


@aten("aten.hypot.default")
def hypot(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """hypot(Tensor self, Tensor other) -> Tensor"""
    # in float64, so that squares of float32 numbers neither overflow nor underflow
    a, b = operands(context, FLOAT64, self, other)
    return cast(elementwise.sqrt(a * a + b * b), context.dtype)


ROWS: dict[str, Row] = {
    "aten.square.default": (elementwise.mul, "self, self"),
    "aten.frexp.Tensor": (float_parts.frexp, "self"),
}
pass_on(ROWS)
