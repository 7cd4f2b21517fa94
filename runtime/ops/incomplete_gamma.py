"""The regularized incomplete gamma functions in NumPy, of float64 numbers.

W. Gautschi, "A computational procedure for incomplete gamma functions", ACM TOMS 5 (1979): a series for x up to a + 1,
a continued fraction (DLMF 8.9.2, by Lentz's method) above. Near a large a, both need some 9 sqrt(a) terms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .gamma_function import SHIFT, lgamma, stirling

Array = np.ndarray[Any, Any]

EPSILON = 2.0**-54
MOST_TERMS = 100_000  # enough for a up to 1e8
TINY = 1e-300


def lower(a: Array, x: Array) -> Array:
    """P(a, x), the share of the integral of exp(-t) t**(a - 1) that lies between 0 and x."""
    return _regularized(a, x)[0]


def upper(a: Array, x: Array) -> Array:
    """Q(a, x) = 1 - P(a, x)."""
    return _regularized(a, x)[1]


def _regularized(a: Array, x: Array) -> tuple[Array, Array]:
    a, x = np.broadcast_arrays(a, x)
    p, q = np.full(a.shape, np.nan), np.full(a.shape, np.nan)
    for where, value in (
        ((a == 0) & (x > 0), 1.0),
        ((a > 0) & (x == 0), 0.0),
        (np.isposinf(a) & (x >= 0) & np.isfinite(x), 0.0),
        ((a > 0) & np.isfinite(a) & np.isposinf(x), 1.0),
    ):
        p[where], q[where] = value, 1 - value
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    left = inside & (x <= a + 1)
    p[left] = _series(a[left], x[left])
    q[left] = 1 - p[left]
    small = left & (x <= 1.1) & ((q < 0.5) | (a < 0.1))  # 1 - P would lose its digits
    q[small] = _complement_series(a[small], x[small])
    right = inside & ~left
    q[right] = _fraction(a[right], x[right])
    p[right] = 1 - q[right]
    return p, q


def _series(a: Array, x: Array) -> Array:
    """P(a, x) = x**a exp(-x) / gamma(a + 1) * (1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...)."""
    total, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, MOST_TERMS):
        term = term * (x / (a + k))
        total = total + term
        if not np.any(term > EPSILON * total):
            break
    return total * _factor(a, x) / a


def _complement_series(a: Array, x: Array) -> Array:
    """Q(a, x) for x up to about 1: 1 - x**a / gamma(a + 1), less the series of P from its second term on."""
    total, power = np.zeros_like(x), np.ones_like(x)
    for k in range(1, 40):
        power = power * (-x / k)
        total = total + power / (a + k)
    exponent: Array = a * np.log(x) - lgamma(a + 1)
    result: Array = -np.expm1(exponent) - np.exp(exponent) * a * total
    return result


def _fraction(a: Array, x: Array) -> Array:
    """Q(a, x) = x**a exp(-x) / gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...))."""
    b = x + 1 - a
    c, d = np.full_like(x, 1 / TINY), 1 / b
    value = d
    for k in range(1, MOST_TERMS):
        numerator = k * (a - k)
        b = b + 2
        d = numerator * d + b
        c = b + numerator / c
        d = 1 / np.where(np.abs(d) < TINY, TINY, d)
        c = np.where(np.abs(c) < TINY, TINY, c)
        change = c * d
        value = value * change
        if not np.any(np.abs(change - 1) > EPSILON * 4):
            break
    return value * _factor(a, x)


def _factor(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a); of a large a, without the cancellation of its great factors."""
    mu = (x - a) / a
    large = np.maximum(a, SHIFT)
    near = np.exp(a * (np.log1p(mu) - mu) - stirling(large)) * np.sqrt(a / (2 * math.pi))
    far: Array = np.exp(a * np.log(x) - x - lgamma(a))
    return np.where(a >= SHIFT, near, far)
