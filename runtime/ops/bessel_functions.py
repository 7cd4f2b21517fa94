"""Bessel functions of order 0 and 1 and the Airy function of float64 numbers, in NumPy.

The methods are those of S. L. Moshier's Cephes library, which ATen uses too: Chebyshev series and rational functions.
J, Y and Ai agree with ATen rather than with Cephes: in ATen some denominators lack their leading 1, so that J and Y are
off by up to 3e-7 for arguments between 3 and 10.
No function branches on elements, so `onnx_arrays` can turn them all into ONNX.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import bessel_coefficients as table
from .bessel_coefficients import Ratio, Series

Array = Any  # an array or an `OnnxArray`, see `onnx_arrays`

# ---- modified Bessel functions ----


def i0e(x: Array) -> Array:
    """exp(-|x|) I0(x)."""
    size = np.absolute(x)
    small = _chebyshev(np.minimum(size, 8.0) / 2.0 - 2.0, table.I0_SMALL)
    large = np.maximum(size, 8.0)
    return np.where(size <= 8.0, small, _chebyshev(32.0 / large - 2.0, table.I0_LARGE) / np.sqrt(large))


def i1e(x: Array) -> Array:
    """exp(-|x|) I1(x)."""
    size = np.absolute(x)
    within = np.minimum(size, 8.0)
    small = within * _chebyshev(within / 2.0 - 2.0, table.I1_SMALL)
    large = np.maximum(size, 8.0)
    value = np.where(size <= 8.0, small, _chebyshev(32.0 / large - 2.0, table.I1_LARGE) / np.sqrt(large))
    return np.where(x < 0.0, -value, value)


def i0(x: Array) -> Array:
    """The modified Bessel function I0."""
    return np.exp(np.absolute(x)) * i0e(x)


def i1(x: Array) -> Array:
    """The modified Bessel function I1."""
    return np.exp(np.absolute(x)) * i1e(x)


def k0e(x: Array) -> Array:
    """exp(x) K0(x); infinite at 0, NaN below."""
    small, large = _clip_at_two(x)
    near = (_chebyshev(small * small - 2.0, table.K0_SMALL) - np.log(0.5 * small) * i0(small)) * np.exp(small)
    return _set_limit_at_zero(
        x, np.where(x <= 2.0, near, _chebyshev(8.0 / large - 2.0, table.K0_LARGE) / np.sqrt(large))
    )


def k1e(x: Array) -> Array:
    """exp(x) K1(x); infinite at 0, NaN below."""
    small, large = _clip_at_two(x)
    near = _chebyshev(small * small - 2.0, table.K1_SMALL) / small + np.log(0.5 * small) * i1(small)
    far = _chebyshev(8.0 / large - 2.0, table.K1_LARGE) / np.sqrt(large)
    return _set_limit_at_zero(x, np.where(x <= 2.0, near * np.exp(small), far))


def k0(x: Array) -> Array:
    """The modified Bessel function K0."""
    return np.exp(-x) * k0e(x)


def k1(x: Array) -> Array:
    """The modified Bessel function K1."""
    return np.exp(-x) * k1e(x)


def _clip_at_two(x: Array) -> tuple[Array, Array]:
    """Return x clipped to the intervals of the two series: (0, 2], and at least 2."""
    return np.minimum(np.maximum(x, 1e-300), 2.0), np.maximum(x, 2.0)


def _set_limit_at_zero(x: Array, value: Array) -> Array:
    """Return `value` for a function that is infinite at 0 and undefined below."""
    return np.where(x < 0.0, np.nan, np.where(x == 0.0, np.inf, value))


# ---- Bessel functions of the first and second kind ----

_ZEROS_J0 = (5.78318596294678452118, 30.4712623436620863991)  # squares of the first two zeros
_ZEROS_J1 = (14.6819706421238932572, 49.2184563216946036703)


def j0(x: Array) -> Array:
    """The Bessel function J0."""
    size = np.absolute(x)
    small, large = np.minimum(size, 5.0), np.maximum(size, 5.0)
    square = small * small
    near = (square - _ZEROS_J0[0]) * (square - _ZEROS_J0[1]) * _ratio(square, table.J0)
    p, q = _modulus(large, table.P0, table.Q0)
    phase = large - 0.25 * math.pi
    return np.where(size <= 5.0, near, p * np.cos(phase) - q * np.sin(phase))


def j1(x: Array) -> Array:
    """The Bessel function J1."""
    size = np.absolute(x)
    small, large = np.minimum(size, 5.0), np.maximum(size, 5.0)
    square = small * small
    near = small * (square - _ZEROS_J1[0]) * (square - _ZEROS_J1[1]) * _ratio(square, table.J1)
    p, q = _modulus(large, table.P1, table.Q1)
    phase = large - 0.75 * math.pi
    value = np.where(size <= 5.0, near, p * np.cos(phase) - q * np.sin(phase))
    return np.where(x < 0.0, -value, value)


def y0(x: Array) -> Array:
    """The Bessel function Y0; -infinite at 0, NaN below."""
    small, large = np.minimum(np.maximum(x, 1e-300), 5.0), np.maximum(x, 5.0)
    near = _ratio(small * small, table.Y0) + 2.0 / math.pi * np.log(small) * j0(small)
    p, q = _modulus(large, table.P0, table.Q0)
    phase = large - 0.25 * math.pi
    return -_set_limit_at_zero(x, -np.where(x <= 5.0, near, p * np.sin(phase) + q * np.cos(phase)))


def y1(x: Array) -> Array:
    """The Bessel function Y1; -infinite at 0, NaN below."""
    small, large = np.minimum(np.maximum(x, 1e-300), 5.0), np.maximum(x, 5.0)
    near = small * _ratio(small * small, table.Y1) + 2.0 / math.pi * (j1(small) * np.log(small) - 1.0 / small)
    p, q = _modulus(large, table.P1, table.Q1)
    phase = large - 0.75 * math.pi
    return -_set_limit_at_zero(x, -np.where(x <= 5.0, near, p * np.sin(phase) + q * np.cos(phase)))


def _modulus(x: Array, p: Ratio, q: Ratio) -> tuple[Array, Array]:
    """Return the factors of cosine and sine in the asymptotic form, for x of at least 5."""
    inverse = 5.0 / x
    scale = math.sqrt(2.0 / math.pi) / np.sqrt(x)
    return scale * _ratio(inverse * inverse, p), scale * inverse * _ratio(inverse * inverse, q)


def spherical_j0(x: Array) -> Array:
    """sin(x) / x, 1 at 0 and 0 at infinity."""
    finite = np.where(np.absolute(x) == np.inf, 1.0, np.where(x == 0.0, 1.0, x))
    return np.where(x == 0.0, 1.0, np.where(np.absolute(x) == np.inf, 0.0, np.sin(finite) / finite))


# ---- the Airy function ----

_TURN = 2.09
_TERMS = 20  # of the series for small arguments: the last is below 1e-30


def airy_ai(x: Array) -> Array:
    """The Airy function Ai; NaN at infinity, as in ATen."""
    within = np.minimum(np.maximum(x, -_TURN), _TURN)
    cube = within * within * within
    f, g = _series(cube, 0.0), within * _series(cube, 1.0)
    middle = 0.355028053887817239260 * f - 0.258819403792806798405 * g
    above = np.minimum(np.maximum(x, _TURN), 104.0)
    power = 2.0 * above * np.sqrt(above) / 3.0
    decay = 2.0 * np.sqrt(np.sqrt(above)) * np.exp(power)
    right = _ratio(1.0 / power, table.AIRY_LARGE) / (decay * math.sqrt(math.pi))
    below = np.maximum(-x, _TURN)
    swing = 2.0 * below * np.sqrt(below) / 3.0
    z = 1.0 / swing
    phase = swing + 0.25 * math.pi
    sine = np.sin(phase) * (1.0 + z * z * _ratio(z * z, table.AIRY_F))
    left = (sine - np.cos(phase) * z * _ratio(z * z, table.AIRY_G)) / (math.sqrt(math.pi) * np.sqrt(np.sqrt(below)))
    value = np.where(x < -_TURN, left, np.where(x < _TURN, middle, right))
    return np.where(np.absolute(x) == np.inf, np.nan, np.where(x > 103.892, 0.0, value))


def _series(cube: Array, power: float) -> Array:
    """A solution of y'' = x y divided by x**power, as a series.

    Term k is x**3 / ((3 k + power - 1) (3 k + power)) times the previous one.
    """
    total: Array = 1.0
    for k in range(_TERMS, 0, -1):
        exponent = 3.0 * k + power
        total = 1.0 + cube / ((exponent - 1.0) * exponent) * total
    return total


# ---- sums ----


def _chebyshev(x: Array, coefficients: Series) -> Array:
    """Half of Clenshaw's sum, highest order first, as in Cephes' chbevl."""
    before, last = 0.0, coefficients[0] + 0.0 * x
    two_before: Any = 0.0
    for coefficient in coefficients[1:]:
        two_before, before = before, last
        last = x * before - two_before + coefficient
    return 0.5 * (last - two_before)


def _ratio(x: Array, coefficients: Ratio) -> Array:
    numerator, denominator = (_polynomial(x, c) for c in coefficients)
    return numerator / denominator


def _polynomial(x: Array, coefficients: Series) -> Array:
    result: Array = coefficients[0]
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result
