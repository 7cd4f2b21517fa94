"""Rectifiers: activation functions that are x, or a multiple of it, where x is positive."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64, is_floating
from ..traits import Traits
from . import comparison, elementwise, float64_forms, reduction, shaping
from .common import in_float32
from .declarations import infer_floating, infer_numeric, onnx_larger, or_float64, unary, zero
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


def _select_by_sign(x: Tensor, positive: Tensor, otherwise: Tensor) -> Any:
    return elementwise.where(comparison.greater(x, zero(x)), positive, otherwise)


def _relu_onnx(graph: OnnxGraph, x: str) -> str:
    dtype = graph.type(x).dtype
    if is_floating(dtype):
        return str(graph.op("Relu", x))
    return onnx_larger(graph, x, graph.constant(0, dtype), dtype)  # ONNX Runtime has no integer Relu


def _relu_vjp(g: Tensor, y: Tensor, x: Tensor) -> Any:
    if not is_floating(y.dtype):
        return None
    return elementwise.where(comparison.less_equal(y, zero(y)), zero(g), g)


@unary(infer_numeric, lambda x: np.maximum(x, 0), vjp=_relu_vjp, onnx=_relu_onnx)
def relu(x: Tensor) -> Tensor:
    """max(x, 0); its gradient at 0 is 0. ATen relu, ONNX Relu-14."""


relu.traits = Traits(
    elementwise=True, exact=True, wider_integers="most", family="activation", in_torch="nn.functional", in_cells=True
)


@operator
def leaky_relu(x: Tensor, *, negative_slope: float = 0.01) -> Tensor:
    """x where it is positive, `negative_slope` times x elsewhere. ATen leaky_relu, ONNX LeakyRelu-16."""


leaky_relu.traits = Traits(elementwise=True, family="activation", in_torch="nn.functional")


leaky_relu.infer(lambda x, **_: infer_floating(x))


@leaky_relu.kernel
def _(x: Array, *, negative_slope: float) -> Array:
    return np.where(x > 0, x, x * negative_slope)


@leaky_relu.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, negative_slope: float) -> Any:
    return _select_by_sign(x, g, g * negative_slope)


@leaky_relu.onnx
def _(graph: OnnxGraph, x: str, *, negative_slope: float) -> str:
    if graph.type(x).dtype == FLOAT64:
        return float64_forms.leaky_relu(Writer(graph, FLOAT64), x, negative_slope)
    return str(graph.op("LeakyRelu", x, alpha=float(negative_slope)))


@operator
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, `weight` times x elsewhere.

    `weight` has one dimension: one slope for all, or one for each channel (dimension 1 of `x`).
    ATen prelu, ONNX PRelu-16.
    """


prelu.traits = Traits(elementwise=True, mixed_precision="half", in_torch="nn.functional")


@prelu.infer
def _(x: Type, weight: Type) -> Type:
    channels = x.shape[1] if x.rank > 1 else 1
    fits = weight.rank == 1 and (weight.shape[0] == 1 or weight.shape[0] == channels)
    require(fits, f"needed a weight of shape (1,) or ({channels},), given {weight}")
    require(x.dtype == weight.dtype, f"needed x and weight of one dtype, given {x} and {weight}; cast first")
    return infer_floating(x)


def _weight_shape(x: Any, weight: Any) -> tuple[Any, ...]:
    """The shape with which `weight` broadcasts along the channels of `x`."""
    return (1,) if len(x.shape) < 2 else (weight.shape[0],) + (1,) * (len(x.shape) - 2)


@prelu.kernel
def _(x: Array, weight: Array) -> Array:
    return np.where(x > 0, x, x * weight.reshape(_weight_shape(x, weight))).reshape(x.shape)


@prelu.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    slopes = shaping.reshape(weight, shape=_weight_shape(x, weight))
    g_weight = _select_by_sign(x, zero(g), g * x)
    channel_axis = 1 if weight.shape[0] != 1 else None
    axes = tuple(axis for axis in range(len(x.shape)) if axis != channel_axis)
    slope_sums = reduction.reduce_sum(g_weight, axes=axes, keepdims=False) if axes else g_weight
    gx = _select_by_sign(x, g, shaping.reshape(g * slopes, shape=x.shape))
    return gx, shaping.reshape(slope_sums, shape=weight.shape)


@prelu.onnx
def _(graph: OnnxGraph, x: str, weight: str) -> str:
    slopes = graph.op("Reshape", weight, graph.dims(_weight_shape(graph.type(x), graph.type(weight))))
    if graph.type(x).dtype == FLOAT64:
        return float64_forms.leaky_relu(Writer(graph, FLOAT64), x, slopes)
    return str(graph.op("PRelu", x, slopes))


@operator
def elu(x: Tensor, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """scale * x where x is positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere. ATen elu, ONNX Elu-22."""


elu.traits = Traits(elementwise=True, family="activation")


elu.infer(lambda x, **_: infer_floating(x))


@elu.kernel
def _elu(x: Array, *, alpha: float, scale: float, input_scale: float) -> Array:
    return np.where(x > 0, x * scale, np.expm1(x * input_scale) * (alpha * scale))


@elu.vjp
@in_float32
def _elu_vjp(g: Tensor, y: Tensor, x: Tensor, *, alpha: float, scale: float, input_scale: float) -> Any:
    # exp of a positive x isn't needed; it could overflow, and the second derivative would contain 0 * inf
    slope = elementwise.exp(elementwise.minimum(x, zero(x)) * input_scale) * (alpha * scale * input_scale)
    return _select_by_sign(x, g * scale, g * slope)


@elu.onnx
def _(graph: OnnxGraph, x: str, *, alpha: float, scale: float, input_scale: float) -> str:
    dtype = graph.type(x).dtype
    if dtype != FLOAT64 and scale == input_scale == 1.0:
        return str(graph.op("Elu", x, alpha=float(alpha)))
    w = Writer(graph, dtype)
    curve = w("Mul", float64_forms.expm1(w, w("Mul", x, input_scale)), alpha * scale)
    return w("Where", w("Greater", x, 0.0), w("Mul", x, scale), curve)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _selu_float64(w: Writer, x: str) -> str:
    curve = w("Mul", float64_forms.expm1(w, x), SELU_ALPHA * SELU_SCALE)
    return w("Where", w("Greater", x, 0.0), w("Mul", x, SELU_SCALE), curve)


@unary(
    infer_floating,
    lambda x: _elu(x, alpha=SELU_ALPHA, scale=SELU_SCALE, input_scale=1.0),
    vjp=lambda g, y, x: _elu_vjp(g, y, x, alpha=SELU_ALPHA, scale=SELU_SCALE, input_scale=1.0),
    onnx=or_float64("Selu", _selu_float64),
)
def selu(x: Tensor) -> Tensor:
    """`elu` with the constants of self-normalizing networks (Klambauer et al. 2017). ATen selu, ONNX Selu-22."""


selu.traits = Traits(elementwise=True, family="activation", in_torch="nn.functional", in_cells=True)


@operator
def softplus(x: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above `threshold`. ATen softplus, ONNX Softplus-22."""


softplus.traits = Traits(elementwise=True, mixed_precision="float32", family="activation", in_torch="nn.functional")


softplus.infer(lambda x, **_: infer_floating(x))


@softplus.kernel
def _(x: Array, *, beta: float, threshold: float) -> Array:
    z = x * beta
    return np.where(z > threshold, x, np.log1p(np.exp(z)) / beta)


@softplus.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, beta: float, threshold: float) -> Any:
    z = x * beta
    return elementwise.where(comparison.greater(z, threshold), g, g * elementwise.sigmoid(z))


@softplus.onnx
def _(graph: OnnxGraph, x: str, *, beta: float, threshold: float) -> str:
    w = Writer(graph, graph.type(x).dtype)
    z = w("Mul", x, beta)
    curve = float64_forms.softplus(w, z) if w.dtype == FLOAT64 else w("Softplus", z)
    return w("Where", w("Greater", z, threshold), x, w("Div", curve, beta))


@operator
def hardtanh(x: Tensor, *, minimum: float, maximum: float) -> Tensor:
    """`x` clipped to two bounds, like `elementwise.clamp`, but without a gradient at the bounds themselves.

    ATen hardtanh and relu6, ONNX Clip-13.
    """


hardtanh.traits = Traits(elementwise=True, exact=True, wider_integers="most", family="activation")


hardtanh.infer(lambda x, **_: infer_numeric(x))


@hardtanh.kernel
def _(x: Array, *, minimum: float, maximum: float) -> Array:
    return np.clip(x, x.dtype.type(minimum), x.dtype.type(maximum))


@hardtanh.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, minimum: float, maximum: float) -> Any:
    if not is_floating(x.dtype):
        return None
    outside = comparison.logical_or(comparison.less_equal(x, minimum), comparison.greater_equal(x, maximum))
    return elementwise.where(outside, zero(g), g)


@hardtanh.onnx
def _(graph: OnnxGraph, x: str, *, minimum: float, maximum: float) -> str:
    dtype = graph.type(x).dtype
    return str(graph.op("Clip", x, graph.constant(minimum, dtype), graph.constant(maximum, dtype)))
