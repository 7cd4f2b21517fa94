"""The regularized incomplete gamma functions of float64 numbers in NumPy, which `onnx_arrays` can turn into ONNX.

W. Gautschi, "A computational procedure for incomplete gamma functions", ACM TOMS 5 (1979): a series for x up to a + 1,
a continued fraction (DLMF 8.9.2, by Lentz's method) above. Near a large a, both need about 9 sqrt(a) terms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .gamma_function import SHIFT, lgamma, stirling
from .onnx_arrays import iterate

Array = Any  # an array or an `OnnxArray`, see `onnx_arrays`

EPSILON = 2.0**-54
MAX_TERMS = 100_000  # enough for a up to 1e8
TINY = 1e-300


def lower(a: Array, x: Array) -> Array:
    """P(a, x), the integral of exp(-t) t**(a - 1) from 0 to x divided by the integral from 0 to infinity."""
    return _regularized(a, x)[0]


def upper(a: Array, x: Array) -> Array:
    """Q(a, x) = 1 - P(a, x)."""
    return _regularized(a, x)[1]


def _regularized(a: Array, x: Array) -> tuple[Array, Array]:
    inside = (a > 0.0) & (x > 0.0) & (a < np.inf) & (x < np.inf)
    left, right = inside & (x <= a + 1.0), inside & (x > a + 1.0)
    p = _series(np.where(left, a, 1.0), np.where(left, x, 1.0))
    # here 1 - P would lose digits
    small = left & (x <= 1.1) & ((p > 0.5) | (a < 0.1))
    complement = _complement_series(np.where(small, a, 1.0), np.where(small, x, 1.0))
    q = np.where(
        right, _fraction(np.where(right, a, 1.0), np.where(right, x, 3.0)), np.where(small, complement, 1.0 - p)
    )
    p = np.where(right, 1.0 - q, p)
    is_one = ((a == 0.0) & (x > 0.0)) | ((a > 0.0) & (a < np.inf) & (x == np.inf))
    zero = ((a > 0.0) & (x == 0.0)) | ((a == np.inf) & (x >= 0.0) & (x < np.inf))
    outside = np.where(is_one, 1.0, np.where(zero, 0.0, np.nan))
    return np.where(inside, p, outside), np.where(inside, q, 1.0 - outside)


def _series(a: Array, x: Array) -> Array:
    """P(a, x) = x**a exp(-x) / gamma(a + 1) * (1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...)."""

    def add(k: Any, total: Array, term: Array, a: Array, x: Array) -> tuple[Array, ...]:
        term = term * (x / (a + k))
        total = total + term
        return term > EPSILON * total, total, term

    one = 1.0 + 0.0 * x
    total, _ = iterate(add, (one, one), (a, x), MAX_TERMS)
    return total * _factor(a, x) / a


def _complement_series(a: Array, x: Array) -> Array:
    """Q(a, x) for x up to about 1: 1 - x**a / gamma(a + 1), minus the series of P from its second term on."""
    total, power = 0.0 * x, 1.0 + 0.0 * x
    for k in range(1, 40):
        power = power * (-x / float(k))
        total = total + power / (a + float(k))
    exponent = a * np.log(x) - lgamma(a + 1.0)
    return -np.expm1(exponent) - np.exp(exponent) * a * total


def _fraction(a: Array, x: Array) -> Array:
    """Q(a, x) = x**a exp(-x) / gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))."""

    def refine(k: Any, value: Array, c: Array, d: Array, a: Array, x: Array) -> tuple[Array, ...]:
        numerator, b = k * (a - k), x + (2.0 * k + 1.0) - a
        d = numerator * d + b
        c = b + numerator / c
        d = 1.0 / np.where(np.absolute(d) < TINY, TINY, d)
        c = np.where(np.absolute(c) < TINY, TINY, c)
        change = c * d
        return np.absolute(change - 1.0) > EPSILON * 4.0, value * change, c, d

    first = 1.0 / (x + 1.0 - a)
    value, _, _ = iterate(refine, (first, 1.0 / TINY + 0.0 * x, first), (a, x), MAX_TERMS)
    return value * _factor(a, x)


def _factor(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a), computed for large a without cancellation between its factors."""
    mu = (x - a) / a
    large = np.maximum(a, float(SHIFT))
    near = np.exp(a * (np.log1p(mu) - mu) - stirling(large)) * np.sqrt(a / (2.0 * math.pi))
    far = np.exp(a * np.log(x) - x - lgamma(a))
    return np.where(a >= float(SHIFT), near, far)
