"""The gamma function's logarithm and that one's derivatives in NumPy, in float64: series for large arguments.

NIST Digital Library of Mathematical Functions: Stirling's series 5.11.1, that of digamma 5.11.2, recurrence 5.5.1,
reflection 5.5.3; Euler-Maclaurin for the Hurwitz zeta function 25.11.5.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SHIFT = 10
"""Where the series are used: smaller arguments are brought above it by recurrence."""

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The second, fourth, ... of the Bernoulli numbers."""


def lgamma(x: Array) -> Array:
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    positive = np.where(x < 0.5, 1 - x, x)
    product, large = np.ones_like(x), positive
    for _ in range(SHIFT):
        below = large < SHIFT
        product = np.where(below, product * large, product)
        large = np.where(below, large + 1, large)
    series = sum(b / ((2 * k + 2) * (2 * k + 1) * large ** (2 * k + 1)) for k, b in enumerate(BERNOULLI))
    result = (large - 0.5) * np.log(large) - large + 0.5 * math.log(2 * math.pi) + series - np.log(product)
    result = np.where(np.isposinf(x), x, result)
    return np.where(x < 0.5, math.log(math.pi) - np.log(np.abs(_sine(x))) - result, result)


def digamma(x: Array) -> Array:
    """The derivative of `lgamma`; NaN at the negative integers, infinite at 0."""
    positive = np.where(x < 0.5, 1 - x, x)
    total, large = np.zeros_like(x), positive
    for _ in range(SHIFT):
        below = large < SHIFT
        total = np.where(below, total - 1 / large, total)
        large = np.where(below, large + 1, large)
    series = sum(b / ((2 * k + 2) * large ** (2 * k + 2)) for k, b in enumerate(BERNOULLI))
    result = total + np.log(large) - 0.5 / large - series
    reflected = result - math.pi * np.cos(math.pi * (x % 2)) / _sine(x)
    result = np.where(x < 0.5, reflected, result)
    result = np.where((x < 0) & (x == np.floor(x)), np.nan, result)
    return np.where(x == 0, -np.copysign(np.inf, x), result)


def polygamma(order: int, x: Array) -> Array:
    """The derivative of `digamma` of an order of at least 1; below 0 it is NaN for orders above 1."""
    value: Array = (-1.0) ** (order + 1) * math.factorial(order) * _hurwitz_zeta(order + 1, np.where(x < 0, 1 - x, x))
    if order == 1:
        return np.where(x < 0, (math.pi / _sine(x)) ** 2 - value, value)
    return np.where(x < 0, np.nan, value)


def _hurwitz_zeta(s: int, x: Array) -> Array:
    """The sum of (x + k)**-s over all k from 0, for s above 1 and x from 0."""
    total = sum((x + k) ** -float(s) for k in range(SHIFT))
    end = x + SHIFT
    total = total + end ** (1.0 - s) / (s - 1) + 0.5 * end ** -float(s)
    rising = float(s)
    for k, b in enumerate(BERNOULLI, start=1):
        total = total + b / math.factorial(2 * k) * rising * end ** (1.0 - s - 2 * k)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
    return np.asarray(total)


def _sine(x: Array) -> Array:
    """sin(pi * x), 0 at the integers."""
    rest = x % 2
    return np.where(x == np.floor(x), 0.0, np.sin(math.pi * rest))
