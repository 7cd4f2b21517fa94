"""Special functions where torch is no judge: exact sums, and identities between functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cellbridge.runtime.ops import bessel_functions, gamma_function, incomplete_gamma, special


@pytest.mark.parametrize(("a", "x"), [(3, 2.5), (33, 30.0), (40, 55.0), (150, 149.0), (900, 880.0)])
def test_incomplete_gamma_of_a_whole_number_is_a_sum(a, x):
    """Q(a, x) = exp(-x) * sum of x**k / k! for k below a (DLMF 8.4.10)."""
    logarithms = [k * math.log(x) - x - math.lgamma(k + 1) for k in range(a)]
    exact = math.fsum(math.exp(term) for term in logarithms)
    operands = np.array([float(a)]), np.array([x])
    np.testing.assert_allclose(incomplete_gamma.upper(*operands), exact, rtol=1e-11)
    np.testing.assert_allclose(incomplete_gamma.lower(*operands), 1 - exact, rtol=1e-11)


def test_digamma_and_polygamma_are_derivatives_below_zero_too():
    x, h = np.array([-3.3, -0.6, 0.4, 2.2]), 1e-5
    slope = (gamma_function.lgamma(x + h) - gamma_function.lgamma(x - h)) / (2 * h)
    np.testing.assert_allclose(gamma_function.digamma(x), slope, rtol=1e-8)
    for order in (1, 2, 3):
        before = [special._polygamma(x + step, order=order - 1) for step in (-h, h)]
        np.testing.assert_allclose(gamma_function.polygamma(order, x), (before[1] - before[0]) / (2 * h), rtol=1e-7)


def test_wronskians_of_bessel_functions():
    """J1 Y0 - J0 Y1 = 2 / (pi x), I0 K1 + I1 K0 = 1 / x (DLMF 10.5.2, 10.28.2)."""
    x = np.array([0.01, 0.7, 1.9, 2.1, 4.9, 5.1, 7.9, 8.1, 40.0])
    b = bessel_functions
    # as exact as ATen's, see `bessel_functions`
    np.testing.assert_allclose(b.j1(x) * b.y0(x) - b.j0(x) * b.y1(x), 2 / (math.pi * x), rtol=1e-6)
    np.testing.assert_allclose(b.i0e(x) * b.k1e(x) + b.i1e(x) * b.k0e(x), 1 / x, rtol=1e-12)
