"""Rectifiers and thresholds: functions that are x, or a multiple of it, on one side of a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..ops import comparison, elementwise, random, rectifier
from ..ops.declarations import zero
from .operands import as_tensor, promote_pair, require_floating
from .public_op import Primitive, public_op


@public_op(method="relu", primitive="ReLU")
def relu(input: Any) -> Any:
    """max(x, 0), elementwise, for any numeric dtype; the gradient at 0 is 0."""
    return rectifier.relu(as_tensor(input, of="relu"))


@public_op(primitive="ReLU6")
def relu6(x: Any) -> Any:
    """min(max(x, 0), 6), elementwise, for any numeric dtype; the gradient at 0 and at 6 is 0."""
    return rectifier.hardtanh(as_tensor(x, "x", of="relu6"), minimum=0.0, maximum=6.0)


@public_op()
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """x clamped to [`min_val`, `max_val`], elementwise, for any numeric dtype; the gradient at the bounds is 0.

    Raises:
        TypeError: a bound isn't a number.
        ValueError: `min_val` is above `max_val`.
    """
    x = as_tensor(input, of="hardtanh")
    for name, bound in (("min_val", min_val), ("max_val", max_val)):
        checks.of_type(bound, name, (int, float), of="hardtanh")
    if min_val > max_val:
        raise ValueError(f"For 'hardtanh', 'min_val' must not be above 'max_val', but got {min_val} and {max_val}")
    return rectifier.hardtanh(x, minimum=min_val, maximum=max_val)


@public_op()
def leaky_relu(input: Any, alpha: float = 0.2) -> Any:
    """x where it is positive, `alpha` times x elsewhere; floating-point x. The gradient at 0 is `alpha`."""
    x = require_floating(input, of="leaky_relu")
    checks.of_type(alpha, "alpha", (int, float), of="leaky_relu")
    return rectifier.leaky_relu(x, negative_slope=float(alpha))


@public_op(method="prelu", primitive="PReLU")
def prelu(input: Any, weight: Any) -> Any:
    """x where it is positive, `weight` times x elsewhere (He et al. 2015).

    Args:
        input: floating-point x, channels in dimension 1.
        weight: (1,) or (channels,): one slope for all, or one for each channel.

    Raises:
        TypeError: an operand isn't floating-point.
        ValueError: `weight` has another shape.
    """
    x, slopes = require_floating(input, of="prelu"), require_floating(weight, "weight", of="prelu")
    return rectifier.prelu(*promote_pair(x, slopes, of="prelu"))


@public_op(primitive=Primitive("Elu", init_args=("alpha",)))
def elu(input_x: Any, alpha: float = 1.0) -> Any:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere (Clevert et al. 2015); floating-point x."""
    return rectifier.elu(require_floating(input_x, "input_x", of="elu"), alpha=float(alpha))


@public_op(primitive="SeLU")
def selu(input_x: Any) -> Any:
    """Scaled `elu` with the constants of self-normalizing networks (Klambauer et al. 2017); floating-point x."""
    return rectifier.selu(require_floating(input_x, "input_x", of="selu"))


@public_op(primitive=Primitive("CeLU", init_args=("alpha",)))
def celu(x: Any, alpha: float = 1.0) -> Any:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere (Barron 2017); floating-point x.

    Raises:
        TypeError: `x` isn't floating-point.
        ValueError: `alpha` is 0.
    """
    if alpha == 0:
        raise ValueError(f"For 'celu', 'alpha' must not be 0, but got {alpha}")
    return rectifier.elu(require_floating(x, "x", of="celu"), alpha=float(alpha), input_scale=1.0 / alpha)


@public_op(method="hardshrink", primitive=Primitive("HShrink", init_args=("lambd",)))
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where it is outside [-lambd, lambd], 0 inside; floating-point x."""
    x = require_floating(input, of="hardshrink")
    return elementwise.where(comparison.less_equal(elementwise.abs(x), float(lambd)), zero(x), x)


@public_op(method="soft_shrink", primitive=Primitive("SoftShrink", init_args=("lambd",)), alias="soft_shrink")
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x shrunk towards 0 by `lambd`, and 0 for |x| <= `lambd`; floating-point x.

    Raises:
        TypeError: x isn't floating-point.
        ValueError: `lambd` is negative.
    """
    x = require_floating(input, of="softshrink")
    checks.in_range(lambd, "lambd", "[0, inf)", of="softshrink")
    inside = comparison.less_equal(elementwise.abs(x), float(lambd))
    shrunk = x - elementwise.sign(x) * float(lambd)
    return elementwise.where(inside, zero(x), shrunk)


@public_op()
def threshold(input: Any, thr: float, value: float) -> Any:
    """x where it is above `thr`, `value` elsewhere, for any numeric dtype."""
    x = as_tensor(input, of="threshold")
    for name, number in (("thr", thr), ("value", value)):
        checks.of_type(number, name, (int, float), of="threshold")
    return elementwise.where(comparison.less_equal(x, thr), np.asarray(value).astype(x.dtype), x)


@public_op()
def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3) -> Any:
    """x where it is positive, elsewhere x times a slope sampled uniformly from [lower, upper) (Xu et al. 2015).

    Raises:
        TypeError: x isn't floating-point.
        ValueError: `lower` is above `upper`.
    """
    x = require_floating(input, of="rrelu")
    for name, bound in (("lower", lower), ("upper", upper)):
        checks.of_type(bound, name, (int, float), of="rrelu")
    if lower > upper:
        raise ValueError(f"For 'rrelu', 'lower' must not be above 'upper', but got {lower} and {upper}")
    slopes = random.random_like(x, random.uniform, low=float(lower), high=float(upper))
    return elementwise.where(comparison.greater(x, zero(x)), x, elementwise.mul(x, slopes))
