"""The logarithm of the gamma function and its derivatives for float64 numbers in NumPy, by series for large arguments.

NIST Digital Library of Mathematical Functions: Stirling's series 5.11.1, the series of digamma 5.11.2, recurrence
5.5.1, reflection 5.5.3 and 5.15.6; Euler-Maclaurin for the Hurwitz zeta function 25.11.5. `onnx_arrays` can turn all of
them into ONNX.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .onnx_arrays import iterate

Array = Any  # an array or an `OnnxArray`, see `onnx_arrays`

SHIFT = 10
"""The series are used for arguments of at least this; the recurrence shifts smaller ones up."""

MAX_TERMS = 1_000_000
"""The largest number of terms of the zeta function below 0."""

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The Bernoulli numbers of index 2, 4, ..."""


def lgamma(x: Array) -> Array:
    """log |gamma(x)|; infinite at 0, the negative integers and both infinities."""
    positive = np.where(x < 0.5, 1.0 - x, x)
    product, large = 1.0 + 0.0 * positive, positive
    for _ in range(SHIFT):
        below = large < SHIFT
        product = np.where(below, product * large, product)
        large = np.where(below, large + 1.0, large)
    result = (large - 0.5) * np.log(large) - large + 0.5 * math.log(2 * math.pi) + stirling(large) - np.log(product)
    reflected = math.log(math.pi) - np.log(np.absolute(_sine(x))) - result
    return np.where(np.absolute(x) == np.inf, np.inf, np.where(x < 0.5, reflected, result))


def stirling(x: Array) -> Array:
    """The series of log gamma(x) without its elementary part, for x of at least `SHIFT`."""
    return _inverse_square_series(x, [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI)]) / x


def digamma(x: Array) -> Array:
    """The derivative of `lgamma`; NaN at the negative integers, infinite at 0."""
    positive = np.where(x < 0.5, 1.0 - x, x)
    total, large = 0.0 * positive, positive
    for _ in range(SHIFT):
        below = large < SHIFT
        total = np.where(below, total - 1.0 / large, total)
        large = np.where(below, large + 1.0, large)
    series = _inverse_square_series(large, [b / (2 * k + 2) for k, b in enumerate(BERNOULLI)]) / (large * large)
    result = np.where(large == np.inf, np.inf, total + np.log(large) - 0.5 / large - series)
    reflected = result - math.pi * _cosine(x) / _sine(x)
    result = np.where(x < 0.5, reflected, result)
    result = np.where((x < 0.0) & (x == np.floor(x)), np.nan, result)
    return np.where(x == 0.0, -1.0 / x, result)  # the infinity has the opposite sign to the zero


def polygamma(order: int, x: Array) -> Array:
    """The derivative of `digamma` of order 1 or higher, by reflection below 0; infinite at 0 and negative integers."""
    sign = (-1.0) ** (order + 1)
    value = sign * math.factorial(order) * _zeta_above_zero(order + 1.0, np.where(x < 0.0, 1.0 - x, x))
    # psi_n(1 - x) - (-1)^n psi_n(x) = (-1)^n d^n/dx^n (pi cot(pi x)); psi_n(1 - x) has been computed
    cotangent = _cosine(x) / _sine(x)
    derivative = math.pi ** (order + 1) * _horner(cotangent, _cotangent_derivative(order))
    reflected = (-1.0) ** order * value - derivative
    is_integer = (x <= 0.0) & (x == np.floor(x))
    return np.where(is_integer, sign * np.inf, np.where(x < 0.0, reflected, value))


def _cotangent_derivative(order: int) -> list[float]:
    """Return the derivative of this order of cot as a polynomial in c = cot, lowest power first, by -(1 + c^2) d/dc."""
    polynomial = [0.0, 1.0]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(polynomial)][1:]
        polynomial = [0.0] * (len(slope) + 2)
        for k, c in enumerate(slope):
            polynomial[k] -= c
            polynomial[k + 2] -= c
    return polynomial


def zeta(s: Array, q: Array) -> Array:
    """The Hurwitz zeta function: the sum of (q + k)**-s over all k >= 0.

    It is infinite for s = 1 or an infinite term, NaN for s below 1, and NaN for q below 0 unless s is an integer.
    """
    is_integer = s == np.floor(s)
    steps = np.where((q < 0.0) & (q > -np.inf) & is_integer, -np.floor(q), 0.0)

    def add(k: Any, total: Array, s: Array, q: Array, steps: Array) -> tuple[Array, ...]:
        return k < steps, total + np.where(k <= steps, (q + (k - 1.0)) ** -s, 0.0)

    (total,) = iterate(add, (0.0 * steps,), (s, q, steps), MAX_TERMS)  # up to the first term that isn't below 0
    total = total + _zeta_above_zero(s, q + steps)
    total = np.where((q <= 0.0) & ~is_integer, np.nan, total)
    total = np.where((q <= 0.0) & (q == np.floor(q)), np.inf, total)
    return np.where(s == 1.0, np.inf, np.where(s < 1.0, np.nan, np.where(np.isnan(s) | np.isnan(q), np.nan, total)))


def _zeta_above_zero(s: Any, q: Array) -> Array:
    total: Array = 0.0
    for k in range(SHIFT):
        total = total + (q + float(k)) ** -s
    end = q + float(SHIFT)
    power = end**-s
    total = total + power * end / (s - 1.0) + 0.5 * power
    factor = s * power / end
    for k, b in enumerate(BERNOULLI, start=1):
        total = total + b / math.factorial(2 * k) * factor
        factor = factor * (s + 2.0 * k - 1.0) * (s + 2.0 * k) / (end * end)
    return np.where(q == np.inf, 0.0, total)


def _inverse_square_series(x: Array, coefficients: list[float]) -> Array:
    return _horner(1.0 / (x * x), coefficients)


def _horner(x: Array, coefficients: list[float]) -> Array:
    """A polynomial, lowest power first."""
    result: Array = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _sine(x: Array) -> Array:
    """sin(pi * x), 0 at the integers."""
    return np.where(x == np.floor(x), 0.0, np.sin(math.pi * _reduce_modulo_2(x)))


def _cosine(x: Array) -> Array:
    """cos(pi * x)."""
    return np.cos(math.pi * _reduce_modulo_2(x))


def _reduce_modulo_2(x: Array) -> Array:
    """x minus the largest even number not above it."""
    return x - 2.0 * np.floor(0.5 * x)
