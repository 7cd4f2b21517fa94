"""The scaled complementary error function, the inverse error function, and the log of the normal distribution function.

They compute float64 numbers in NumPy without branching on elements, so that `onnx_arrays` can turn them into ONNX.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .error_function import INNER, INNER_BOUND, MIDDLE, MIDDLE_BOUND, OUTER, Ratio

Array = Any  # an array or an `OnnxArray`, see `onnx_arrays`

# M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988),
# PPND16: rational functions (numerator, denominator), highest power first.
# fmt: off
CENTRAL: Ratio = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)
NEAR_TAIL: Ratio = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)
FAR_TAIL: Ratio = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)
# fmt: on


def erfinv(x: Array) -> Array:
    """The number whose erf is x; infinite at -1 and 1, NaN outside."""
    size = np.absolute(x)
    value: Array = np.where(
        size <= 0.85, _central_quantile(0.5 * x), _apply_sign(x, _tail_quantile(0.5 * (1.0 - size)))
    )
    value = value / math.sqrt(2.0)
    return np.where(size > 1.0, np.nan, np.where(size == 1.0, _apply_sign(x, np.inf), value))


def ndtri(p: Array) -> Array:
    """The p-quantile of the standard normal distribution; infinite at 0 and 1, NaN outside."""
    middle = p - 0.5
    tail = _tail_quantile(np.where(middle < 0.0, p, 1.0 - p))
    value: Array = np.where(np.absolute(middle) <= 0.425, _central_quantile(middle), _apply_sign(middle, tail))
    value = np.where((p == 0.0) | (p == 1.0), _apply_sign(middle, np.inf), value)
    return np.where((p < 0.0) | (p > 1.0), np.nan, value)


def _central_quantile(q: Array) -> Array:
    """The quantile for the probability 0.5 + q between 0.075 and 0.925."""
    return q * _ratio(0.180625 - q * q, CENTRAL)


def _tail_quantile(p: Array) -> Array:
    """The negative of the quantile for a probability p near 0."""
    r = np.sqrt(-np.log(np.maximum(p, 5e-324)))
    return np.where(r <= 5.0, _ratio(r - 1.6, NEAR_TAIL), _ratio(r - 5.0, FAR_TAIL))


def _apply_sign(x: Array, size: Any) -> Array:
    return np.where(x < 0.0, -1.0, 1.0) * size


def erfcx(x: Array) -> Array:
    """exp(x**2) * erfc(x), by Cody's functions (see `error_function`)."""
    size = np.absolute(x)
    within = np.minimum(size, INNER_BOUND)
    inner = np.exp(within * within) * (1.0 - within * _ratio(within * within, INNER))
    middle = _ratio(np.minimum(np.maximum(size, INNER_BOUND), MIDDLE_BOUND), MIDDLE)
    large = np.maximum(size, MIDDLE_BOUND)
    inverse = 1.0 / (large * large)
    outer = (1.0 / math.sqrt(math.pi) - inverse * _ratio(inverse, OUTER)) / large
    positive = np.where(size <= INNER_BOUND, inner, np.where(size <= MIDDLE_BOUND, middle, outer))
    return np.where(x < 0.0, 2.0 * np.exp(x * x) - positive, positive)


def log_ndtr(x: Array) -> Array:
    """The logarithm of the standard normal distribution function."""
    t = x / math.sqrt(2.0)
    left = np.minimum(t, -0.5)
    below = np.log(0.5 * erfcx(-left)) - left * left
    right = np.maximum(t, -1.0)
    above = np.log1p(-0.5 * np.exp(-right * right) * erfcx(right))
    return np.where(x < -1.0, below, np.where(t > 27.0, 0.0, above))


def _ratio(x: Array, coefficients: Ratio) -> Array:
    numerator, denominator = (_polynomial(x, c) for c in coefficients)
    return numerator / denominator


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    result: Array = coefficients[0]
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result
