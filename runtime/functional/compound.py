"""Formulas with several operands, elementwise: sums of products, interpolation, quotients with a rule for zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..common.dtype import dtype_name, float32
from ..ir.types import is_floating
from ..ops import comparison, elementwise
from . import arithmetic
from .operands import as_floating, as_numeric, as_tensor, promote_pair
from .public_op import public_op

# ---- sums ----


@public_op(primitive="AddN")
def addn(x: Any) -> Any:
    """Sum of a list or tuple of tensors of one shape and dtype.

    Raises:
        TypeError: `x` isn't a list or tuple of tensors, or their dtypes differ.
        ValueError: `x` is empty, or shapes differ.
    """
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"For 'addn', 'x' must be a list or tuple of Tensors, but got {type(x).__name__}")
    if not x:
        raise ValueError("For 'addn', 'x' must hold at least one Tensor, but got none")
    terms = [as_numeric(term, f"x[{i}]", of="addn") for i, term in enumerate(x)]
    total = terms[0]
    for i, term in enumerate(terms[1:], start=1):
        if term.dtype != total.dtype:
            raise TypeError(
                f"For 'addn', x[{i}] must have dtype {dtype_name(total.dtype)}, but got {dtype_name(term.dtype)}"
            )
        if term.shape != total.shape:
            raise ValueError(f"For 'addn', x[{i}] must have shape {total.shape}, but got {term.shape}")
        total = elementwise.add(total, term)
    return total


@public_op(primitive="AccumulateNV2")
def accumulate_n(x: Any) -> Any:
    """Sum of a list or tuple of tensors of one shape and dtype; see `addn`."""
    return addn(x)


@public_op(method="addcmul", primitive="Addcmul")
def addcmul(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """`input + value * tensor1 * tensor2`."""
    return input + _times(elementwise.mul(*promote_pair(tensor1, tensor2, of="addcmul")), value)


@public_op(method="addcdiv", primitive="Addcdiv")
def addcdiv(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    """`input + value * tensor1 / tensor2`."""
    return input + _times(as_tensor(tensor1, "tensor1", of="addcdiv") / tensor2, value)


@public_op(method="lerp", primitive="Lerp")
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """`input + weight * (end - input)`: from `input` at weight 0 to `end` at weight 1."""
    start, end = promote_pair(input, end, of="lerp")
    return as_floating(start, of="lerp") + weight * (end - start)


@public_op(primitive="SquaredDifference")
def _squared_difference(x: Any, y: Any) -> Any:
    """`(x - y)**2`."""
    difference = elementwise.sub(*promote_pair(x, y, of="SquaredDifference"))
    return elementwise.mul(difference, difference)


# ---- special cases for zero ----


@public_op(method="xlogy", primitive="Xlogy")
def xlogy(input: Any, other: Any) -> Any:
    """`input * log(other)`, and 0 where `input` is 0, whatever `other` is."""
    a, b = _float_pair(input, other, of="xlogy")
    positive, finite = comparison.greater(b, _constant(0, b)), comparison.less(b, _constant(math.inf, b))
    usable = comparison.logical_or(comparison.not_equal(a, _constant(0, a)), comparison.logical_and(positive, finite))
    return a * elementwise.log(elementwise.where(usable, b, _constant(1, b)))


@public_op(method="xdivy", primitive="Xdivy")
def xdivy(x: Any, y: Any) -> Any:
    """`x / y`, and 0 where `x` is 0, whatever `y` is."""
    a, b = _float_pair(x, y, of="xdivy")
    return _unless_zero(a, a / _one_where_zero(a, b))


@public_op(primitive="DivNoNan")
def _div_no_nan(x: Any, y: Any) -> Any:
    """`x / y`, and 0 where `y` is 0."""
    a, b = _float_pair(x, y, of="DivNoNan")
    return _unless_zero(b, a / _one_where_zero(b, b))


@public_op(primitive="MulNoNan")
def _mul_no_nan(x: Any, y: Any) -> Any:
    """`x * y`, and 0 where `y` is 0, even if `x` is infinite or NaN."""
    a, b = promote_pair(x, y, of="MulNoNan")
    zero = comparison.equal(b, _constant(0, b))
    return _unless_zero(b, elementwise.where(zero, _constant(0, a), a) * b)


# ---- hypotenuse and logarithms of sums ----


@public_op(method="hypot", primitive="Hypot")
def hypot(input: Any, other: Any) -> Any:
    """`sqrt(input**2 + other**2)`."""
    a, b = _float_pair(input, other, of="hypot")
    return elementwise.sqrt(a * a + b * b)


@public_op(method="logaddexp")
def logaddexp(input: Any, other: Any) -> Any:
    """`log(exp(input) + exp(other))`, computed without overflow."""
    a, b = _float_pair(input, other, of="logaddexp")
    distance = elementwise.abs(a - b)
    same = comparison.equal(a, b)  # the difference of two equal infinities is NaN
    excess = elementwise.log1p(elementwise.exp(-elementwise.where(same, _constant(0, a), distance)))
    return elementwise.maximum(a, b) + excess


@public_op(method="logaddexp2")
def logaddexp2(input: Any, other: Any) -> Any:
    """`log2(2**input + 2**other)`."""
    a, b = _float_pair(input, other, of="logaddexp2")
    return logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)


@public_op(method="ldexp")
def ldexp(x: Any, other: Any) -> Any:
    """`x * 2**other`."""
    a, b = _float_pair(x, other, of="ldexp")
    return a * arithmetic.pow(2, b)


# ---- sign and choice ----


@public_op(method="copysign")
def copysign(x: Any, other: Any) -> Any:
    """`x` with the sign of `other`; -0.0 counts as negative."""
    a, b = _float_pair(x, other, of="copysign")
    return elementwise.where(comparison.not_equal(signbit(a), signbit(b)), -a, a)


@public_op(method="signbit")
def signbit(input: Any) -> Any:
    """Whether the sign bit of `input` is set: for negative numbers and -0.0."""
    x = as_numeric(input, of="signbit")
    zero = _constant(0, x)
    if not is_floating(x.dtype):
        return comparison.less(x, zero)
    negative_zero = comparison.logical_and(comparison.equal(x, zero), comparison.less(elementwise.reciprocal(x), zero))
    return comparison.logical_or(comparison.less(x, zero), negative_zero)


@public_op(method="heaviside", primitive="Heaviside")
def heaviside(input: Any, values: Any) -> Any:
    """Heaviside step function: 0 where `input` is negative, `values` where it is 0, 1 where it is positive."""
    a, b = promote_pair(input, values, of="heaviside")
    step = elementwise.cast(comparison.greater(a, _constant(0, a)), dtype=a.dtype)
    return elementwise.where(comparison.equal(a, _constant(0, a)), b, step)


@public_op(method="fmax", primitive="Fmax")
def fmax(input: Any, other: Any) -> Any:
    """Maximum of two operands; if one is NaN, the other. If they are equal, `input` gets the gradient."""
    a, b = promote_pair(input, other, of="fmax")
    return elementwise.where(comparison.logical_or(comparison.greater_equal(a, b), _is_nan(b)), a, b)


@public_op(method="fmin", primitive="Fmin")
def fmin(input: Any, other: Any) -> Any:
    """Minimum of two operands; if one is NaN, the other. If they are equal, `input` gets the gradient."""
    a, b = promote_pair(input, other, of="fmin")
    return elementwise.where(comparison.logical_or(comparison.less_equal(a, b), _is_nan(b)), a, b)


def _times(x: Any, value: Any) -> Any:
    return x if isinstance(value, (int, float)) and value == 1 else x * value


def _float_pair(a: Any, b: Any, *, of: str) -> tuple[Any, Any]:
    a, b = promote_pair(a, b, of=of)
    return (a, b) if is_floating(a.dtype) else tuple(elementwise.cast(x, dtype=float32) for x in (a, b))


def _constant(number: float, like: Any) -> np.ndarray[Any, Any]:
    return np.asarray(number, like.dtype)


def _unless_zero(x: Any, value: Any) -> Any:
    """`value`, and 0 where `x` is 0."""
    return elementwise.where(comparison.equal(x, _constant(0, x)), _constant(0, x), value)


def _one_where_zero(x: Any, value: Any) -> Any:
    """`value`, and 1 where `x` is 0, so that neither the discarded result nor its gradient is NaN."""
    return elementwise.where(comparison.equal(x, _constant(0, x)), _constant(1, x), value)


def _is_nan(x: Any) -> Any:
    return comparison.not_equal(x, x)
