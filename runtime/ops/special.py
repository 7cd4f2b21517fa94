"""Special functions of statistics and physics: one function of float64 numbers serves as kernel and as ONNX rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import bessel_functions, elementwise, gamma_function, incomplete_gamma, normal_distribution, trigonometry
from .common import in_float32
from .comparison import equal
from .declarations import Declare, binary, infer_floating, unary
from .elementwise import exp, where
from .onnx_arrays import as_onnx_rule
from .registry import Array, Rule, Tensor, Type, get, operator, require


def _float64_kernel(function: Callable[..., Array]) -> Rule:
    """Return a kernel that computes in float64 and rounds once."""

    def kernel(*inputs: Array, **attributes: Any) -> Array:
        wide = (x.astype(FLOAT64, copy=False) for x in inputs)
        return np.asarray(function(*wide, **attributes)).astype(inputs[0].dtype, copy=False)

    return kernel


def _special(function: Callable[[Any], Any], vjp: Rule) -> Declare:
    return unary(infer_floating, _float64_kernel(function), vjp=in_float32(vjp), onnx=as_onnx_rule(function))


# ---- the error function and the normal distribution ----


@_special(normal_distribution.erfinv, lambda g, y, x: g * (exp(y * y) * (math.sqrt(math.pi) / 2)))
def erfinv(x: Tensor) -> Tensor:
    """The number whose erf is `x`; infinite at -1 and 1, NaN outside. ATen erfinv."""


erfinv.traits = Traits(elementwise=True, pole=True, in_torch="torch", in_cells=True)


@_special(normal_distribution.erfcx, lambda g, y, x: g * (x * y * 2.0 - 2.0 / math.sqrt(math.pi)))
def erfcx(x: Tensor) -> Tensor:
    """exp(x**2) * erfc(x). ATen special_erfcx."""


erfcx.traits = Traits(elementwise=True, in_torch="special")


@_special(normal_distribution.ndtri, lambda g, y, x: g * (exp(y * y * 0.5) * math.sqrt(2.0 * math.pi)))
def ndtri(x: Tensor) -> Tensor:
    """The `x`-quantile of the standard normal distribution. ATen special_ndtri."""


ndtri.traits = Traits(elementwise=True, pole=True, in_torch="special")


@_special(
    normal_distribution.log_ndtr,
    lambda g, y, x: g * (math.sqrt(2.0 / math.pi) / erfcx(x * (-1.0 / math.sqrt(2.0)))),
)
def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the standard normal distribution function. ATen special_log_ndtr."""


log_ndtr.traits = Traits(elementwise=True, in_torch="special")


def _entropy(x: Any) -> Any:
    value = -x * np.log(np.where(x > 0.0, x, 1.0))
    return np.where(x < 0.0, -np.inf, np.where(x == 0.0, 0.0, value))


@_special(_entropy, lambda g, y, x: -(g * (elementwise.log(x) + 1.0)))
def entr(x: Tensor) -> Tensor:
    """-x log(x); 0 at 0, -infinite below. ATen special_entr."""


entr.traits = Traits(elementwise=True, in_torch="special")


# ---- the gamma function ----


@_special(gamma_function.lgamma, lambda g, y, x: g * get("polygamma")(x, order=0))
def lgamma(x: Tensor) -> Tensor:
    """log |gamma(x)|. ATen lgamma."""


lgamma.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@operator
def polygamma(x: Tensor, *, order: int) -> Tensor:
    """The `order`-th derivative of digamma; order 0 is digamma itself, the derivative of `lgamma`. ATen polygamma."""


polygamma.traits = Traits(elementwise=True, by_series=True)


@polygamma.infer
def _(x: Type, *, order: int) -> Type:
    require(order >= 0, f"needed an order of at least 0, given {order}")
    return infer_floating(x)


def _polygamma(x: Any, *, order: int) -> Any:
    return gamma_function.digamma(x) if order == 0 else gamma_function.polygamma(order, x)


polygamma.kernel(_float64_kernel(_polygamma))
polygamma.onnx(as_onnx_rule(_polygamma))


@polygamma.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, order: int) -> Any:
    return g * polygamma(x, order=order + 1)


@binary(
    infer_floating,
    _float64_kernel(gamma_function.zeta),
    vjp=in_float32(lambda g, y, s, q: (None, -(g * s * get("zeta")(s + 1.0, q)))),
    onnx=as_onnx_rule(gamma_function.zeta),
)
def zeta(s: Tensor, q: Tensor) -> Tensor:
    """The Hurwitz zeta function, the sum of (q + k)**-s over k >= 0; only `q` has a gradient. ATen special_zeta."""


zeta.traits = Traits(elementwise=True, by_series=True, in_torch="special")


def _incomplete_vjp(sign: float) -> Rule:
    """Return the rule for the gradient of `x`, x**(a - 1) exp(-x) / gamma(a); as in torch, `a` has no gradient."""

    def vjp(g: Tensor, y: Tensor, a: Tensor, x: Tensor) -> tuple[None, Any]:
        return None, g * exp((a - 1.0) * elementwise.log(x) - x - lgamma(a)) * sign

    return in_float32(vjp)


@binary(
    infer_floating,
    _float64_kernel(incomplete_gamma.lower),
    vjp=_incomplete_vjp(1.0),
    onnx=as_onnx_rule(incomplete_gamma.lower),
)
def igamma(a: Tensor, x: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x); only `x` has a gradient. ATen igamma."""


igamma.traits = Traits(elementwise=True, by_series=True, in_torch="torch")


@binary(
    infer_floating,
    _float64_kernel(incomplete_gamma.upper),
    vjp=_incomplete_vjp(-1.0),
    onnx=as_onnx_rule(incomplete_gamma.upper),
)
def igammac(a: Tensor, x: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x). ATen igammac."""


igammac.traits = Traits(elementwise=True, by_series=True, in_torch="torch")


# ---- Bessel functions ----


def _divide_with_limit(y: Tensor, x: Tensor, at_zero: float) -> Any:
    """y / x, with the given limit at 0."""
    zero, one = (np.asarray(number, x.dtype) for number in (0.0, 1.0))
    is_zero = equal(x, zero)
    return where(is_zero, np.asarray(at_zero, x.dtype), y / where(is_zero, one, x))


@_special(bessel_functions.i0, lambda g, y, x: g * get("i1")(x))
def i0(x: Tensor) -> Tensor:
    """The modified Bessel function I0. ATen i0."""


i0.traits = Traits(elementwise=True, by_series=True, in_torch="torch")


@_special(bessel_functions.i0e, lambda g, y, x: g * (get("i1e")(x) - elementwise.sign(x) * y))
def i0e(x: Tensor) -> Tensor:
    """exp(-|x|) I0(x). ATen special_i0e."""


i0e.traits = Traits(elementwise=True, by_series=True, in_torch="special")


@_special(bessel_functions.i1, lambda g, y, x: g * (i0(x) - _divide_with_limit(y, x, 0.5)))
def i1(x: Tensor) -> Tensor:
    """The modified Bessel function I1. ATen special_i1."""


i1.traits = Traits(elementwise=True, by_series=True, in_torch="special")


@_special(bessel_functions.i1e, lambda g, y, x: g * (i0e(x) - elementwise.sign(x) * y - _divide_with_limit(y, x, 0.5)))
def i1e(x: Tensor) -> Tensor:
    """exp(-|x|) I1(x). ATen special_i1e."""


i1e.traits = Traits(elementwise=True, by_series=True, in_torch="special")


@_special(bessel_functions.k0, lambda g, y, x: -(g * get("modified_bessel_k1")(x)))
def modified_bessel_k0(x: Tensor) -> Tensor:
    """The modified Bessel function K0; infinite at 0, NaN below. ATen special_modified_bessel_k0."""


modified_bessel_k0.traits = Traits(elementwise=True, by_series=True, pole=True, in_torch="special")


@_special(bessel_functions.k1, lambda g, y, x: -(g * (modified_bessel_k0(x) + y / x)))
def modified_bessel_k1(x: Tensor) -> Tensor:
    """The modified Bessel function K1; infinite at 0, NaN below. ATen special_modified_bessel_k1."""


modified_bessel_k1.traits = Traits(elementwise=True, by_series=True, pole=True, in_torch="special")


@_special(bessel_functions.k0e, lambda g, y, x: g * (y - get("scaled_modified_bessel_k1")(x)))
def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    """exp(x) K0(x). ATen special_scaled_modified_bessel_k0."""


scaled_modified_bessel_k0.traits = Traits(elementwise=True, by_series=True, pole=True, in_torch="special")


@_special(bessel_functions.k1e, lambda g, y, x: g * (y - scaled_modified_bessel_k0(x) - y / x))
def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    """exp(x) K1(x). ATen special_scaled_modified_bessel_k1."""


scaled_modified_bessel_k1.traits = Traits(elementwise=True, by_series=True, pole=True, in_torch="special")


@_special(bessel_functions.j0, lambda g, y, x: -(g * get("bessel_j1")(x)))
def bessel_j0(x: Tensor) -> Tensor:
    """The Bessel function J0. ATen special_bessel_j0."""


bessel_j0.traits = Traits(elementwise=True, by_series=True, in_torch="special")


@_special(bessel_functions.j1, lambda g, y, x: g * (bessel_j0(x) - _divide_with_limit(y, x, 0.5)))
def bessel_j1(x: Tensor) -> Tensor:
    """The Bessel function J1. ATen special_bessel_j1."""


bessel_j1.traits = Traits(elementwise=True, by_series=True, in_torch="special")


@_special(bessel_functions.y0, lambda g, y, x: -(g * get("bessel_y1")(x)))
def bessel_y0(x: Tensor) -> Tensor:
    """The Bessel function Y0; -infinite at 0, NaN below. ATen special_bessel_y0."""


bessel_y0.traits = Traits(elementwise=True, by_series=True, pole=True, in_torch="special")


@_special(bessel_functions.y1, lambda g, y, x: g * (bessel_y0(x) - y / x))
def bessel_y1(x: Tensor) -> Tensor:
    """The Bessel function Y1; -infinite at 0, NaN below. ATen special_bessel_y1."""


bessel_y1.traits = Traits(elementwise=True, by_series=True, pole=True, in_torch="special")


@_special(bessel_functions.spherical_j0, lambda g, y, x: g * _divide_with_limit(trigonometry.cos(x) - y, x, 0.0))
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x, 1 at 0. ATen special_spherical_bessel_j0."""


spherical_bessel_j0.traits = Traits(elementwise=True, by_series=True, in_torch="special")


@unary(
    infer_floating,
    _float64_kernel(bessel_functions.airy_ai),
    no_vjp="torch has no gradient of it either",
    onnx=as_onnx_rule(bessel_functions.airy_ai),
)
def airy_ai(x: Tensor) -> Tensor:
    """The Airy function Ai. ATen special_airy_ai."""


airy_ai.traits = Traits(elementwise=True, by_series=True, in_torch="special")
