"""Primitives that work element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....runtime.ir.types import is_floating
from ....runtime.ops import boundary, comparison, elementwise, rounding, special, trigonometry
from ...unsupported import Unsupported
from .table import TABLE, cast, primitive

_SAME = {
    "add": elementwise.add, "add_any": elementwise.add, "sub": elementwise.sub, "mul": elementwise.mul,
    "max": elementwise.maximum, "min": elementwise.minimum, "neg": elementwise.neg, "sign": elementwise.sign,
    "abs": elementwise.abs, "exp": elementwise.exp, "expm1": elementwise.expm1, "log": elementwise.log,
    "log1p": elementwise.log1p, "sqrt": elementwise.sqrt, "rsqrt": elementwise.rsqrt,
    "logistic": elementwise.sigmoid, "erf": elementwise.erf, "erfc": elementwise.erfc, "erf_inv": special.erfinv,
    "lgamma": special.lgamma, "igamma": special.igamma, "igammac": special.igammac, "zeta": special.zeta,
    "sin": trigonometry.sin, "cos": trigonometry.cos, "tan": trigonometry.tan, "asin": trigonometry.asin,
    "acos": trigonometry.acos, "atan": trigonometry.atan, "atan2": trigonometry.atan2, "sinh": trigonometry.sinh,
    "cosh": trigonometry.cosh, "tanh": trigonometry.tanh, "asinh": trigonometry.asinh,
    "acosh": trigonometry.acosh, "atanh": trigonometry.atanh, "floor": rounding.floor, "ceil": rounding.ceil,
    "eq": comparison.equal, "ne": comparison.not_equal, "lt": comparison.less, "le": comparison.less_equal,
    "gt": comparison.greater, "ge": comparison.greater_equal, "is_finite": comparison.isfinite,
}  # fmt: skip

for _name, _op in _SAME.items():

    def _translate(reader: Any, *operands: Any, _op: Any = _op, **_: Any) -> Any:
        return _op(*operands)

    TABLE[_name] = _translate


@primitive("div")
def div(reader: Any, a: Any, b: Any) -> Any:
    """lax.div: the quotient; of integers, rounded towards zero."""
    if is_floating(a.dtype):
        return elementwise.div(a, b)
    return elementwise.mul(
        elementwise.mul(elementwise.sign(a), elementwise.sign(b)),
        rounding.floor_divide(elementwise.abs(a), elementwise.abs(b)),
    )


@primitive("rem")
def rem(reader: Any, a: Any, b: Any) -> Any:
    """lax.rem: the rest of a division rounded towards zero, with the sign of `a`."""
    return rounding.fmod(a, b)


@primitive("pow")
def pow(reader: Any, a: Any, b: Any) -> Any:
    """lax.pow"""
    return elementwise.pow(a, cast(b, a.dtype))


@primitive("integer_pow")
def integer_pow(reader: Any, x: Any, *, y: int) -> Any:
    """lax.integer_pow"""
    if y == 2:
        return elementwise.mul(x, x)
    return elementwise.reciprocal(x) if y == -1 else elementwise.pow(x, reader.constant(np.array(y, x.dtype)))


@primitive("square")
def square(reader: Any, x: Any) -> Any:
    """lax.square"""
    return elementwise.mul(x, x)


@primitive("exp2")
def exp2(reader: Any, x: Any, **_: Any) -> Any:
    """lax.exp2: 2^x = exp(x log 2)."""
    return elementwise.exp(elementwise.mul(x, math.log(2.0)))


@primitive("digamma")
def digamma(reader: Any, x: Any) -> Any:
    """lax.digamma"""
    return special.polygamma(x, order=0)


@primitive("round")
def round(reader: Any, x: Any, *, rounding_method: Any) -> Any:
    """lax.round: halves to even (1), or away from zero (0)."""
    if int(rounding_method) == 1:
        return rounding.round(x)
    return elementwise.mul(elementwise.sign(x), rounding.floor(elementwise.add(elementwise.abs(x), 0.5)))


def _logic(logical: Any, bitwise: Any) -> Any:
    def translate(reader: Any, *operands: Any) -> Any:
        return (logical if operands[0].dtype == bool else bitwise)(*operands)

    return translate


TABLE["and"] = _logic(comparison.logical_and, comparison.bitwise_and)
TABLE["or"] = _logic(comparison.logical_or, comparison.bitwise_or)
TABLE["xor"] = _logic(comparison.logical_xor, comparison.bitwise_xor)
TABLE["not"] = _logic(comparison.logical_not, comparison.bitwise_not)


@primitive("select_n")
def select_n(reader: Any, which: Any, *cases: Any) -> Any:
    """lax.select_n: `cases[which]`, for a bool or an integer."""
    if which.dtype == bool:
        return elementwise.where(which, cases[1], cases[0]) if len(cases) > 1 else cases[0]
    result = cases[-1]
    for number in range(len(cases) - 2, -1, -1):
        result = elementwise.where(comparison.equal(which, np.array(number, which.dtype)), cases[number], result)
    return result


@primitive("clamp")
def clamp(reader: Any, least: Any, x: Any, greatest: Any) -> Any:
    """lax.clamp"""
    return elementwise.minimum(elementwise.maximum(x, least), greatest)


@primitive("convert_element_type")
def convert_element_type(reader: Any, x: Any, *, new_dtype: Any, **_: Any) -> Any:
    """lax.convert_element_type"""
    return cast(x, new_dtype)


@primitive("reduce_precision")
def reduce_precision(reader: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """lax.reduce_precision, to the numbers of a dtype that exists."""
    dtypes = {(5, 10): "float16", (8, 7): "bfloat16", (8, 23): "float32", (11, 52): "float64"}
    name = dtypes.get((exponent_bits, mantissa_bits))
    if name is None:
        raise Unsupported(f"{exponent_bits} bits of exponent and {mantissa_bits} of mantissa")
    return cast(cast(x, reader.dtype(name)), x.dtype)


@primitive("copy", "copy_p", "sharding_constraint", "name", "pvary")
def same(reader: Any, x: Any, **_: Any) -> Any:
    """Primitives that return their operand."""
    return x


@primitive("stop_gradient")
def stop_gradient(reader: Any, x: Any, **_: Any) -> Any:
    """lax.stop_gradient"""
    return boundary.stop_gradient(x)


@primitive("optimization_barrier")
def optimization_barrier(reader: Any, *operands: Any) -> Any:
    """lax.optimization_barrier"""
    return operands
