"""The error function and its complement in NumPy, since SciPy isn't a dependency.

float64: W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969), in the three
intervals of his CALERF. float32: polynomials after N. Juffa, with an error of about 1 unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Ratio = tuple[tuple[float, ...], tuple[float, ...]]

# Rational functions as (numerator, denominator), highest power first.
# erf(x) = x * INNER(x**2) for |x| <= INNER_BOUND
# erfc(x) = exp(-x**2) * MIDDLE(x) for x <= MIDDLE_BOUND
# erfc(x) = exp(-x**2) / x * (1 / sqrt(pi) - OUTER(1 / x**2) / x**2) above; 0 in float64 above OUTER_BOUND
INNER_BOUND, MIDDLE_BOUND, OUTER_BOUND = 0.46875, 4.0, 27.5
# fmt: off
INNER: Ratio = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
MIDDLE: Ratio = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)
OUTER: Ratio = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)
# fmt: on


def erf(x: Array) -> Array:
    """The error function of float32 or float64 numbers, in their dtype."""
    return _blockwise(_erf_float32 if x.dtype == np.float32 else _erf_float64, x)


def erfc(x: Array) -> Array:
    """1 - erf(x) of float32 or float64 numbers, in their dtype, without cancellation."""
    return _blockwise(_erfc_float64, x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)


BLOCK = 16384  # elements; the dozen intermediate results of one block fit into the cache


def _blockwise(function: Callable[[Array], Array], x: Array) -> Array:
    flat = x.reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, BLOCK):
        result[start : start + BLOCK] = function(flat[start : start + BLOCK])
    return result.reshape(x.shape)


def _erf_float64(x: Array) -> Array:
    inner = ~(np.abs(x) > INNER_BOUND)  # includes NaN
    result = np.empty_like(x)
    result[inner] = _inner_erf(x[inner])
    outer = x[~inner]
    size = np.minimum(np.abs(outer), OUTER_BOUND)
    result[~inner] = np.copysign(1.0 - np.exp(-size * size) * _scaled_erfc(size), outer)
    return result


def _erfc_float64(x: Array) -> Array:
    inner = ~(np.abs(x) > INNER_BOUND)
    result = np.empty_like(x)
    result[inner] = 1.0 - _inner_erf(x[inner])
    outer = x[~inner]
    size = np.minimum(np.abs(outer), OUTER_BOUND)
    # splitting x**2 into an exact part and a rest keeps the relative error of its exponential small
    coarse = np.trunc(size * 16.0) / 16.0
    positive = np.exp(-coarse * coarse) * np.exp(-(size - coarse) * (size + coarse)) * _scaled_erfc(size)
    result[~inner] = np.where(outer < 0, 2.0 - positive, positive)
    return result


def _inner_erf(x: Array) -> Array:
    return x * _ratio(x * x, INNER)


def _scaled_erfc(x: Array) -> Array:
    """exp(x**2) * erfc(x) for x above `INNER_BOUND`."""
    result = np.empty_like(x)
    middle = x <= MIDDLE_BOUND
    result[middle] = _ratio(x[middle], MIDDLE)
    large = x[~middle]
    inverse = 1.0 / (large * large)
    result[~middle] = (1.0 / math.sqrt(math.pi) - inverse * _ratio(inverse, OUTER)) / large
    return result


def _ratio(x: Array, coefficients: Ratio) -> Array:
    numerator, denominator = (_polynomial(x, c) for c in coefficients)
    numerator /= denominator
    return numerator


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Horner's scheme, highest power first."""
    result = x * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result


# erf(x) = x + x * NEAR(x**2) for |x| <= NEAR_BOUND, 1 - exp(FAR(x) * x - x) above (1 in float32 above 4)
NEAR_BOUND = 0.927734375
NEAR = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
FAR = (
    -1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1,
)  # fmt: skip


def _erf_float32(x: Array) -> Array:
    x = np.clip(x, -4.0, 4.0)
    size = np.abs(x)
    is_far = (size > NEAR_BOUND).astype(np.float32)
    far = _polynomial(size, FAR)
    far *= size
    far -= size
    np.exp(far, out=far)
    np.subtract(1.0, far, out=far)
    np.copysign(far, x, out=far)
    near = _polynomial(x * x, NEAR)
    near *= x
    near += x
    # selection by factors 0 and 1, exact and several times faster than `np.where`
    far *= is_far
    near *= np.subtract(1.0, is_far, out=is_far)
    near += far
    return near
