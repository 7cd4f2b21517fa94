"""The exponential of matrices of small norm by Taylor polynomials with a minimum of products, as in ATen.

P. Bader, S. Blanes, F. Casas, "Computing the matrix exponential with an optimized Taylor polynomial approximation"
(2019). These are functions of the identity and of matrices (..., n, n), which are arrays (real or complex), symbolic
tensors or `Complex`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Polynomial = Callable[[Any, Any], Any]
"""A function of the identity and a matrix."""


def degree_1(identity: Any, x: Any) -> Any:
    """1 + x."""
    return identity + x


def degree_2(identity: Any, x: Any) -> Any:
    """1 + x + x^2 / 2."""
    return identity + x + (x @ x) / 2.0


def degree_4(identity: Any, x: Any) -> Any:
    """Up to x^4 / 24, with 2 products."""
    squared = x @ x
    return identity + x + squared @ _weighted_sum([1 / 2, 1 / 6, 1 / 24], [identity, x, squared])


def degree_8(identity: Any, x: Any) -> Any:
    """Up to x^8 / 8!, with 3 products (section 3.1)."""
    return _degree_8(identity, x, (2 / 3) ** 2)


def truncated_degree_8(identity: Any, x: Any) -> Any:
    """`degree_8` as ATen computed it before torch 2.15, with a weight divided by 2/3 once instead of twice.

    The terms from x^5 on are too small: 2e-11 is missing at a norm of 0.05 (PyTorch's issue 196592).
    """
    return _degree_8(identity, x, 2 / 3)


def _degree_8(identity: Any, x: Any, last: float) -> Any:
    root, two_thirds = math.sqrt(177.0), 2 / 3
    squared = x @ x
    fourth = squared @ _weighted_sum([two_thirds * ((1 + root) / 88), two_thirds * ((1 + root) / 352)], [x, squared])
    factor = squared * two_thirds + fourth
    weights = [
        (-271 + 29 * root) / (315 * two_thirds), (-11 + 11 * root) / (1260 * two_thirds),
        (-99 + 11 * root) / (5040 * two_thirds), (89 - root) / (5040 * last),
    ]  # fmt: skip
    eighth = factor @ _weighted_sum(weights, [identity, x, squared, fourth])
    return identity + x + squared * ((857 - 58 * root) / 630) + eighth


_WEIGHTS_12 = (
    (9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740),
    (5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989),
    (0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230),
    (-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359),
)  # equation 12


def degree_12(identity: Any, x: Any) -> Any:
    """Up to x^12 / 12!, with 4 products."""
    squared = x @ x
    powers = [identity, x, squared, x @ squared]
    first, second, third, fourth = (_weighted_sum(weights, powers) for weights in _WEIGHTS_12)
    sixth = third + fourth @ fourth
    return first + (second + sixth) @ sixth


_WEIGHTS_18 = (
    (0.0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04, 0.0),
    (
        0.0, 3.97849749499645077844e-01, 1.36783778460411720168e00, 4.98289622525382669416e-01,
        -6.37898194594723280150e-04,
    ),
    (
        -1.09676396052962061844e01, 1.68015813878906206114e00, 5.71779846478865511061e-02, -6.98210122488052056106e-03,
        3.34975017086070470649e-05,
    ),
    (
        -9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02,
        2.95552570429315521194e-02, -1.39180257516060693404e-05,
    ),
    (0.0, 0.0, -9.23364619367118555360e-02, -1.69364939002081722752e-02, -1.40086798182036094347e-05),
)  # fmt: skip
# equation 15


def degree_18(identity: Any, x: Any) -> Any:
    """Up to x^18 / 18!, with 5 products."""
    squared = x @ x
    cubed = x @ squared
    powers = [identity, x, squared, cubed, cubed @ cubed]
    first, second, third, fourth, fifth = (_weighted_sum(weights, powers) for weights in _WEIGHTS_18)
    ninth = fourth + first @ fifth
    return second + (third + ninth) @ ninth


POLYNOMIALS: tuple[tuple[float, Polynomial], ...] = (
    (2.220446049250313e-16, degree_1), (2.580956802971767e-08, degree_2), (3.397168839976962e-04, degree_4),
    (4.991228871115323e-02, degree_8), (2.996158913811580e-01, degree_12),
)  # fmt: skip
"""Each polynomial with the largest 1-norm for which it is exact up to float64's rounding (table 3)."""
TRUNCATED: tuple[tuple[float, Polynomial], ...] = tuple(
    (bound, truncated_degree_8 if polynomial is degree_8 else polynomial) for bound, polynomial in POLYNOMIALS
)
"""The polynomials of ATen before torch 2.15."""
MAX_NORM = 1.090863719290036e00  # for `degree_18`


def _weighted_sum(weights: Sequence[float], matrices: Sequence[Any]) -> Any:
    """Return the weighted sum of matrices, without those whose weight is 0."""
    terms = [m * w for w, m in zip(weights, matrices, strict=True) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
