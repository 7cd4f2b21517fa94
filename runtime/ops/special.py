"""Special functions of statistics: the inverse of erf, the gamma function's logarithm and its derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import elementwise, error_function, gamma_function
from .common import in_float32
from .declaring import floating
from .registry import Array, Tensor, Type, operator, require

_NOT_STANDARD = "no combination of standard ONNX operators is accurate"


@operator
def erfinv(x: Tensor) -> Tensor:
    """The number of which erf is `x`; infinite at -1 and 1, NaN outside of them. ATen erfinv."""


erfinv.infer(floating)


@erfinv.kernel
def _(x: Array) -> Array:
    # S. Winitzki, "A handy approximation for the error function and its inverse" (2008), then Halley's method
    wide = np.abs(x.astype(np.float64, copy=False))
    logarithm = np.log1p(-wide * wide)
    a = 0.147
    middle = 2 / (math.pi * a) + logarithm / 2
    y = np.sqrt(-logarithm / a / (np.sqrt(middle * middle - logarithm / a) + middle))
    for _ in range(3):
        error = np.where(wide < 0.5, error_function.erf(y) - wide, (1 - wide) - error_function.erfc(y))
        step = error / (2 / math.sqrt(math.pi) * np.exp(-y * y))
        y = y - step / (1 + y * step)
    y = np.where(wide == 1, np.inf, y)
    return np.copysign(y, x).astype(x.dtype, copy=False)


@erfinv.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor) -> Any:
    return g * (elementwise.exp(y * y) * (math.sqrt(math.pi) / 2))


erfinv.no_onnx(_NOT_STANDARD)


@operator
def lgamma(x: Tensor) -> Tensor:
    """log |gamma(x)|. ATen lgamma."""


lgamma.infer(floating)


@lgamma.kernel
def _(x: Array) -> Array:
    return gamma_function.lgamma(x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)


@lgamma.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor) -> Any:
    return g * polygamma(x, order=0)


lgamma.no_onnx(_NOT_STANDARD)


@operator
def polygamma(x: Tensor, *, order: int) -> Tensor:
    """The derivative of digamma of an order; that of order 0 is digamma, the derivative of `lgamma`.

    Below 0, NaN for orders above 1. ATen polygamma.
    """


@polygamma.infer
def _(x: Type, *, order: int) -> Type:
    require(order >= 0, f"needed an order of at least 0, given {order}")
    return floating(x)


@polygamma.kernel
def _(x: Array, *, order: int) -> Array:
    wide = x.astype(np.float64, copy=False)
    y = gamma_function.digamma(wide) if order == 0 else gamma_function.polygamma(order, wide)
    return y.astype(x.dtype, copy=False)


@polygamma.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, order: int) -> Any:
    return g * polygamma(x, order=order + 1)


polygamma.no_onnx(_NOT_STANDARD)
