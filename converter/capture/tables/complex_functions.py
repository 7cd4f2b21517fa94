"""ATen functions of single complex numbers: exponentials, logarithms, powers, trigonometry.

Each is expressed by real functions of its parts (Abramowitz and Stegun, "Handbook of Mathematical Functions", sections
3.7, 4.1 to 4.6), with torch's branch cuts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.ops import comparison, creation, elementwise, trigonometry
from ....runtime.ops.complex_numbers import Complex, magnitude
from ....runtime.ops.declarations import zero
from .complex_table import aten_complex, numbers
from .table import Context


def _function(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """Register a function of one complex tensor under the operator of its name."""

    @aten_complex(f"aten.{function.__name__}.default")
    def translation(context: Context, self: Any) -> Any:
        return function(Complex.from_real(numbers(context, self)[0]))

    translation.__doc__ = function.__doc__
    return function


@_function
def exp(z: Complex) -> Complex:
    """exp(Tensor self) -> Tensor"""
    size = elementwise.exp(z.real)
    return Complex(size * trigonometry.cos(z.imaginary), size * trigonometry.sin(z.imaginary))


@_function
def exp2(z: Complex) -> Complex:
    """exp2(Tensor self) -> Tensor"""
    return exp(z * math.log(2.0))


@_function
def expm1(z: Complex) -> Complex:
    """expm1(Tensor self) -> Tensor"""
    half = trigonometry.sin(z.imaginary * 0.5)
    cosine = trigonometry.cos(z.imaginary)
    return Complex(elementwise.expm1(z.real) * cosine - half * half * 2.0, exp(z).imaginary)


@_function
def log(z: Complex) -> Complex:
    """log(Tensor self) -> Tensor"""
    return Complex(elementwise.log(magnitude(z.real, z.imaginary)), trigonometry.atan2(z.imaginary, z.real))


@_function
def log2(z: Complex) -> Complex:
    """log2(Tensor self) -> Tensor"""
    return log(z) / math.log(2.0)


@_function
def log10(z: Complex) -> Complex:
    """log10(Tensor self) -> Tensor"""
    return log(z) / math.log(10.0)


@_function
def log1p(z: Complex) -> Complex:
    """log1p(Tensor self) -> Tensor"""
    squared = z.real * (z.real + 2.0) + z.imaginary * z.imaginary
    return Complex(elementwise.log1p(squared) * 0.5, trigonometry.atan2(z.imaginary, z.real + 1.0))


@_function
def sqrt(z: Complex) -> Complex:
    """sqrt(Tensor self) -> Tensor"""
    # a square root computes the larger part and a division the other: nothing cancels
    larger = elementwise.sqrt((magnitude(z.real, z.imaginary) + elementwise.abs(z.real)) * 0.5)
    at_zero = comparison.equal(larger, zero(larger))
    smaller = z.imaginary / (elementwise.where(at_zero, np.ones((), larger.dtype), larger) * 2.0)
    to_the_right = comparison.greater_equal(z.real, zero(larger))
    below = comparison.less(z.imaginary, zero(larger))
    return Complex(
        elementwise.where(to_the_right, larger, elementwise.abs(smaller)),
        elementwise.where(to_the_right, smaller, elementwise.where(below, -larger, larger)),
    )


@_function
def rsqrt(z: Complex) -> Complex:
    """rsqrt(Tensor self) -> Tensor"""
    return reciprocal(sqrt(z))


@_function
def reciprocal(z: Complex) -> Complex:
    """reciprocal(Tensor self) -> Tensor"""
    return Complex.from_real(creation.full_like(z.real, 1)) / z


@_function
def square(z: Complex) -> Complex:
    """square(Tensor self) -> Tensor"""
    return z * z


@_function
def sgn(z: Complex) -> Complex:
    """sgn(Tensor self) -> Tensor"""
    size = magnitude(z.real, z.imaginary)
    return z.__truediv__(elementwise.where(comparison.equal(size, zero(size)), np.ones((), size.dtype), size))


@_function
def sigmoid(z: Complex) -> Complex:
    """sigmoid(Tensor self) -> Tensor"""
    return 1.0 / (exp(-z) + 1.0)


@_function
def silu(z: Complex) -> Complex:
    """silu(Tensor self) -> Tensor"""
    return z * sigmoid(z)


@_function
def sin(z: Complex) -> Complex:
    """sin(Tensor self) -> Tensor"""
    a, b = z.real, z.imaginary
    return Complex(trigonometry.sin(a) * trigonometry.cosh(b), trigonometry.cos(a) * trigonometry.sinh(b))


@_function
def cos(z: Complex) -> Complex:
    """cos(Tensor self) -> Tensor"""
    a, b = z.real, z.imaginary
    return Complex(trigonometry.cos(a) * trigonometry.cosh(b), -(trigonometry.sin(a) * trigonometry.sinh(b)))


@_function
def sinh(z: Complex) -> Complex:
    """sinh(Tensor self) -> Tensor"""
    return -sin(z.times_i()).times_i()


@_function
def cosh(z: Complex) -> Complex:
    """cosh(Tensor self) -> Tensor"""
    return cos(z.times_i())


@_function
def tanh(z: Complex) -> Complex:
    """tanh(Tensor self) -> Tensor"""
    # with t = tanh(a) and u = tan(b): (t + iu) / (1 + itu), where nothing overflows
    t, u = trigonometry.tanh(z.real), trigonometry.tan(z.imaginary)
    return Complex(t, u) / Complex(creation.full_like(t, 1), t * u)


@_function
def tan(z: Complex) -> Complex:
    """tan(Tensor self) -> Tensor"""
    return -tanh(z.times_i()).times_i()


@_function
def asinh(z: Complex) -> Complex:
    """asinh(Tensor self) -> Tensor"""
    # computed in the right half of the plane, where nothing cancels
    is_left = comparison.less(z.real, zero(z.real))
    turned = z.each(lambda part: elementwise.where(is_left, -part, part))
    result = log(turned + sqrt(square(turned) + 1.0))
    return result.each(lambda part: elementwise.where(is_left, -part, part))


@_function
def acosh(z: Complex) -> Complex:
    """acosh(Tensor self) -> Tensor"""
    return log(z + sqrt(z + 1.0) * sqrt(z - 1.0))


@_function
def atanh(z: Complex) -> Complex:
    """atanh(Tensor self) -> Tensor"""
    return (log1p(z) - log1p(-z)) * 0.5


@_function
def asin(z: Complex) -> Complex:
    """asin(Tensor self) -> Tensor"""
    return -asinh(z.times_i()).times_i()


@_function
def acos(z: Complex) -> Complex:
    """acos(Tensor self) -> Tensor"""
    return -asin(z) + math.pi / 2


@_function
def atan(z: Complex) -> Complex:
    """atan(Tensor self) -> Tensor"""
    return -atanh(z.times_i()).times_i()


@aten_complex("aten.pow.Tensor_Scalar")
def pow_scalar(context: Context, self: Any, exponent: Any) -> Any:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    z = Complex.from_real(numbers(context, self)[0])
    return _POWERS[exponent](z) if exponent in _POWERS else pow_(context, z, exponent)


_POWERS: dict[Any, Callable[[Complex], Complex]] = {
    0.5: sqrt, -0.5: rsqrt, -1: reciprocal, 1: lambda z: z, 2: square, 3: lambda z: z * square(z),
}  # fmt: skip


@aten_complex("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_(context: Context, self: Any, exponent: Any) -> Any:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor; pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    z, power = (Complex.from_real(x) for x in numbers(context, self, exponent))
    at_zero = _is_zero(z)
    logarithm = log(Complex(elementwise.where(at_zero, np.ones((), z.dtype), z.real), z.imaginary))
    result = exp(logarithm * power)
    nothing = elementwise.cast(_is_zero(power), dtype=z.dtype)  # 0 to the power of 0 is 1
    return Complex(
        elementwise.where(at_zero, nothing, result.real),
        elementwise.where(at_zero, zero(z.real), result.imaginary),
    )


def _is_zero(z: Complex) -> Any:
    return comparison.logical_and(comparison.equal(z.real, zero(z.real)), comparison.equal(z.imaginary, zero(z.real)))
