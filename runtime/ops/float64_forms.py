"""ONNX forms of functions that ONNX lacks, or that ONNX Runtime computes on the CPU in float32 only.

Each takes a `Writer` and a value's name and returns the name of the result. They are accurate to a few units in the
last place of float64, even near 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import error_function
from .registry import OnnxGraph


class Writer:
    """Emits ONNX operators on values of one dtype: `w("Mul", x, 2.0)`; numbers become constants."""

    def __init__(self, graph: OnnxGraph, dtype: np.dtype[Any]) -> None:
        self.graph, self.dtype = graph, dtype

    def __call__(self, operator: str, *operands: str | float) -> str:
        """Add the operator and return the name of its result."""
        names = [o if isinstance(o, str) else self.graph.constant(o, self.dtype) for o in operands]
        return str(self.graph.op(operator, *names))

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """Horner's scheme, highest power first."""
        result = self("Mul", x, coefficients[0])
        for coefficient in coefficients[1:-1]:
            result = self("Mul", self("Add", result, coefficient), x)
        return self("Add", result, coefficients[-1])

    def ratio(self, x: str, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> str:
        """A rational function, numerator first."""
        return self("Div", self.polynomial(x, coefficients[0]), self.polynomial(x, coefficients[1]))


def signbit(w: Writer, x: str) -> str:
    """Whether the sign is minus, also for zeros."""
    return w("Or", w("Less", x, 0.0), w("Less", w("Reciprocal", x), 0.0))


def expm1(w: Writer, x: str) -> str:
    """exp(x) - 1 = tanh(x / 2) * (exp(x) + 1)."""
    return w("Mul", w("Tanh", w("Mul", x, 0.5)), w("Add", w("Exp", x), 1.0))


def log1p(w: Writer, x: str) -> str:
    """log(u) * x / (u - 1) with u = 1 + x, rounded (Goldberg 1991, theorem 4)."""
    u = w("Add", x, 1.0)
    difference = w("Sub", u, 1.0)
    corrected = w("Mul", w("Log", u), w("Div", x, difference))
    small = w("Where", w("Equal", difference, 0.0), x, corrected)
    return w("Where", w("Less", x, 1.0), small, w("Log", u))


def softplus(w: Writer, x: str) -> str:
    """max(x, 0) + log1p(exp(-|x|))."""
    return w("Add", w("Max", x, 0.0), log1p(w, w("Exp", w("Neg", w("Abs", x)))))


def leaky_relu(w: Writer, x: str, slope: str | float) -> str:
    """max(x, 0) + slope * min(x, 0)."""
    return w("Add", w("Max", x, 0.0), w("Mul", slope, w("Min", x, 0.0)))


def hardsigmoid(w: Writer, x: str) -> str:
    """min(max(x + 3, 0), 6) / 6."""
    return w("Div", w("Clip", w("Add", x, 3.0), 0.0, 6.0), 6.0)


def erf(w: Writer, x: str) -> str:
    """The method of `error_function.erf` in float64."""
    inner_x = w("Clip", x, -error_function.INNER_BOUND, error_function.INNER_BOUND)
    inner = w("Mul", inner_x, w.ratio(w("Mul", inner_x, inner_x), error_function.INNER))
    outer = w("Mul", w("Sign", x), w("Sub", 1.0, _erfc_of_positive(w, w("Abs", x))))
    return w("Where", w("LessOrEqual", w("Abs", x), error_function.INNER_BOUND), inner, outer)


def erfc(w: Writer, x: str) -> str:
    """The method of `error_function.erfc` in float64."""
    size = w("Abs", x)
    inner_x = w("Clip", x, -error_function.INNER_BOUND, error_function.INNER_BOUND)
    inner = w("Sub", 1.0, w("Mul", inner_x, w.ratio(w("Mul", inner_x, inner_x), error_function.INNER)))
    positive = _erfc_of_positive(w, size)
    outer = w("Where", w("Less", x, 0.0), w("Sub", 2.0, positive), positive)
    return w("Where", w("LessOrEqual", size, error_function.INNER_BOUND), inner, outer)


def _erfc_of_positive(w: Writer, x: str) -> str:
    """erfc for x above `INNER_BOUND`, and a finite number below it."""
    middle_x = w("Clip", x, error_function.INNER_BOUND, error_function.MIDDLE_BOUND)
    middle = w.ratio(middle_x, error_function.MIDDLE)
    outer_x = w("Clip", x, error_function.MIDDLE_BOUND, error_function.OUTER_BOUND)
    inverse = w("Reciprocal", w("Mul", outer_x, outer_x))
    series = w("Mul", inverse, w.ratio(inverse, error_function.OUTER))
    outer = w("Div", w("Sub", 1.0 / math.sqrt(math.pi), series), outer_x)
    scaled = w("Where", w("LessOrEqual", x, error_function.MIDDLE_BOUND), middle, outer)
    return w("Mul", w("Exp", w("Neg", w("Mul", x, x))), scaled)


def tan(w: Writer, x: str) -> str:
    """sin(x) / cos(x)."""
    return w("Div", w("Sin", x), w("Cos", x))


# Moshier's Cephes library, atan.c (double precision): a rational function for |x| up to 0.66
_ATAN_NUMERATOR = (
    -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1, -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)  # fmt: skip
_ATAN_DENOMINATOR = (
    1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2, 4.853903996359136964868e2,
    1.945506571482613964425e2,
)  # fmt: skip


def atan(w: Writer, x: str) -> str:
    """Cephes' arctangent: a rational function near 0; larger arguments are reduced by an angle of pi/4 or pi/2."""
    size = w("Abs", x)
    steep = w("Greater", size, 1.0 + math.sqrt(2.0))
    middle = w("Greater", size, 0.66)
    quarter = w("Div", w("Sub", size, 1.0), w("Add", size, 1.0))
    reduced = w("Where", steep, w("Neg", w("Reciprocal", size)), w("Where", middle, quarter, size))
    square = w("Mul", reduced, reduced)
    correction = w("Mul", square, w.ratio(square, (_ATAN_NUMERATOR, _ATAN_DENOMINATOR)))
    near = w("Add", reduced, w("Mul", reduced, correction))
    angle = w("Where", steep, math.pi / 2.0, w("Where", middle, math.pi / 4.0, 0.0))
    return w("Mul", w("Sign", x), w("Add", angle, near))


def asin(w: Writer, x: str) -> str:
    """atan(x / sqrt(1 - x**2))."""
    cosine = w("Sqrt", w("Mul", w("Sub", 1.0, x), w("Add", x, 1.0)))
    return atan(w, w("Div", x, cosine))


def acos(w: Writer, x: str) -> str:
    """2 * atan(sqrt((1 - x) / (1 + x)))."""
    half = atan(w, w("Sqrt", w("Div", w("Sub", 1.0, x), w("Add", x, 1.0))))
    return w("Mul", half, 2.0)


def sinh(w: Writer, x: str) -> str:
    """(m + m / (m + 1)) / 2 with m = expm1(|x|), with the sign of x."""
    m = expm1(w, w("Abs", x))
    return w("Mul", w("Mul", w("Sign", x), 0.5), w("Add", m, w("Div", m, w("Add", m, 1.0))))


def cosh(w: Writer, x: str) -> str:
    """(exp(x) + exp(-x)) / 2."""
    return w("Mul", w("Add", w("Exp", x), w("Exp", w("Neg", x))), 0.5)


def asinh(w: Writer, x: str) -> str:
    """log1p(s + s**2 / (1 + sqrt(s**2 + 1))) with s = |x|, with the sign of x."""
    size = w("Abs", x)
    square = w("Mul", size, size)
    root = w("Sqrt", w("Add", square, 1.0))
    return w("Mul", w("Sign", x), log1p(w, w("Add", size, w("Div", square, w("Add", root, 1.0)))))


def acosh(w: Writer, x: str) -> str:
    """log1p(t + sqrt(2 * t + t**2)) with t = x - 1."""
    t = w("Sub", x, 1.0)
    return log1p(w, w("Add", t, w("Sqrt", w("Mul", t, w("Add", t, 2.0)))))


def atanh(w: Writer, x: str) -> str:
    """log1p(2 * s / (1 - s)) / 2 with s = |x|, with the sign of x."""
    size = w("Abs", x)
    inside = w("Div", w("Mul", size, 2.0), w("Sub", 1.0, size))
    return w("Mul", w("Mul", w("Sign", x), 0.5), log1p(w, inside))
