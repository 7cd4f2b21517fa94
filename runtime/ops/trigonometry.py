"""Trigonometric and hyperbolic functions, angles in radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import comparison, float64_forms
from .common import in_float32
from .declarations import binary, from_writer, infer_floating, or_float64, unary, zero
from .elementwise import rsqrt, where
from .float64_forms import Writer
from .registry import Tensor


@in_float32
def _sin_vjp(g: Tensor, y: Tensor, x: Tensor) -> Any:
    return g * cos(x)


@unary(infer_floating, np.sin, vjp=_sin_vjp, onnx="Sin")
def sin(x: Tensor) -> Tensor:
    """Sine. ATen sin, ONNX Sin-7."""


sin.traits = Traits(elementwise=True, family="circular", in_torch="torch", in_cells=True)


@unary(infer_floating, np.cos, vjp=in_float32(lambda g, y, x: -(g * sin(x))), onnx="Cos")
def cos(x: Tensor) -> Tensor:
    """Cosine. ATen cos, ONNX Cos-7."""


cos.traits = Traits(elementwise=True, family="circular", in_torch="torch", in_cells=True)


def sinc(x: Tensor) -> Any:
    """sin(pi x) / (pi x); 1, with the gradient 0, at 0. ATen sinc."""
    angle = x * math.pi
    at_zero, one = comparison.equal(angle, zero(angle)), np.ones((), angle.dtype)
    safe = where(at_zero, one, angle)
    return where(at_zero, one, sin(safe) / safe)


@unary(
    infer_floating,
    np.tan,
    vjp=in_float32(lambda g, y, x: g * (y * y + 1.0)),
    onnx=or_float64("Tan", float64_forms.tan),
)
def tan(x: Tensor) -> Tensor:
    """Tangent. ATen tan, ONNX Tan-7."""


tan.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.arcsin,
    vjp=in_float32(lambda g, y, x: g * rsqrt(1.0 - x * x)),
    onnx=or_float64("Asin", float64_forms.asin),
)
def asin(x: Tensor) -> Tensor:
    """Arcsine; NaN outside [-1, 1]. ATen asin, ONNX Asin-7."""


asin.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.arccos,
    vjp=in_float32(lambda g, y, x: -(g * rsqrt(1.0 - x * x))),
    onnx=or_float64("Acos", float64_forms.acos),
)
def acos(x: Tensor) -> Tensor:
    """Arccosine; NaN outside [-1, 1]. ATen acos, ONNX Acos-7."""


acos.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.arctan,
    vjp=in_float32(lambda g, y, x: g / (x * x + 1.0)),
    onnx=or_float64("Atan", float64_forms.atan),
)
def atan(x: Tensor) -> Tensor:
    """Arctangent. ATen atan, ONNX Atan-7."""


atan.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@in_float32
def _atan2_vjp(g: Tensor, angle: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    square = y * y + x * x
    scaled = g / where(comparison.equal(square, zero(square)), np.ones((), square.dtype), square)  # 0 at the origin
    return scaled * x, -(scaled * y)


def _atan2_onnx(w: Writer, y: str, x: str) -> str:
    """Emit the arctangent of y / |x|, mirrored at the y axis where x is negative; zeros have signs.

    Two zeros or two infinities have no quotient, so 0 / 1 and 1 / 1 are used instead. In ONNX Runtime a zero keeps its
    sign only as the last operand of Where.
    """
    size = w("Abs", x)
    origin = w("And", w("Equal", y, 0.0), w("Equal", x, 0.0))
    infinite = w("And", w("Equal", w("Abs", y), math.inf), w("Equal", size, math.inf))
    size = w("Where", w("Or", origin, infinite), 1.0, size)
    ratio = w("Div", w("Where", infinite, w("Sign", y), y), size)
    right = float64_forms.atan(w, ratio) if w.dtype == FLOAT64 else w("Atan", ratio)
    half_turn = w("Where", float64_forms.signbit(w, y), -math.pi, math.pi)
    return w("Where", float64_forms.signbit(w, x), w("Sub", half_turn, right), right)


@binary(infer_floating, np.arctan2, vjp=_atan2_vjp, onnx=from_writer(_atan2_onnx))
def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of the point (x, y), between -pi and pi. ATen atan2."""


atan2.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@in_float32
def _sinh_vjp(g: Tensor, y: Tensor, x: Tensor) -> Any:
    return g * cosh(x)


@unary(infer_floating, np.sinh, vjp=_sinh_vjp, onnx=or_float64("Sinh", float64_forms.sinh))
def sinh(x: Tensor) -> Tensor:
    """Hyperbolic sine. ATen sinh, ONNX Sinh-9."""


sinh.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(
    infer_floating, np.cosh, vjp=in_float32(lambda g, y, x: g * sinh(x)), onnx=or_float64("Cosh", float64_forms.cosh)
)
def cosh(x: Tensor) -> Tensor:
    """Hyperbolic cosine. ATen cosh, ONNX Cosh-9."""


cosh.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(infer_floating, np.tanh, vjp=in_float32(lambda g, y, x: g * (1.0 - y * y)), onnx="Tanh")
def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent. ATen tanh, ONNX Tanh-13."""


tanh.traits = Traits(elementwise=True, family="activation", in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.arcsinh,
    vjp=in_float32(lambda g, y, x: g * rsqrt(x * x + 1.0)),
    onnx=or_float64("Asinh", float64_forms.asinh),
)
def asinh(x: Tensor) -> Tensor:
    """Inverse hyperbolic sine. ATen asinh, ONNX Asinh-9."""


asinh.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.arccosh,
    vjp=in_float32(lambda g, y, x: g * rsqrt(x * x - 1.0)),
    onnx=or_float64("Acosh", float64_forms.acosh),
)
def acosh(x: Tensor) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1. ATen acosh, ONNX Acosh-9."""


acosh.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.arctanh,
    vjp=in_float32(lambda g, y, x: g / (1.0 - x * x)),
    onnx=or_float64("Atanh", float64_forms.atanh),
)
def atanh(x: Tensor) -> Tensor:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]. ATen atanh, ONNX Atanh-9."""


atanh.traits = Traits(elementwise=True, pole=True, in_torch="torch", in_cells=True)
