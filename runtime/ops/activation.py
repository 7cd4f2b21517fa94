"""Activation functions: log_sigmoid, the hard forms, softmax. See also `rectifier` and `self_gated`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import comparison, elementwise, float64_forms, reduction
from .common import in_float32, normalize_axis
from .declarations import from_writer, infer_floating, or_float64, unary, zero
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Tensor, Type, operator


def _log_sigmoid_kernel(x: Array) -> Array:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@unary(
    infer_floating,
    _log_sigmoid_kernel,
    vjp=in_float32(lambda g, y, x: g * elementwise.sigmoid(-x)),
    onnx=from_writer(lambda w, x: w("Neg", float64_forms.softplus(w, w("Neg", x)))),
)
def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)). ATen log_sigmoid."""


log_sigmoid.traits = Traits(elementwise=True)


def _relu6(x: Array) -> Array:
    return np.clip(x, 0, 6)


ONE_SIXTH = float(np.float32(1.0 / 6.0))  # ATen uses this constant in the gradient, even in float64


def _hardsigmoid_vjp(g: Tensor, y: Tensor, x: Tensor) -> Any:
    inside = comparison.logical_and(comparison.greater(x, -3.0), comparison.less(x, 3.0))
    return elementwise.where(inside, g * ONE_SIXTH, zero(g))


def _hardsigmoid_onnx(graph: OnnxGraph, x: str) -> str:
    if graph.type(x).dtype == FLOAT64:
        return float64_forms.hardsigmoid(Writer(graph, FLOAT64), x)
    return str(graph.op("HardSigmoid", x, alpha=1.0 / 6.0, beta=0.5))


@unary(
    infer_floating,
    lambda x: _relu6(x + 3) / 6,
    vjp=_hardsigmoid_vjp,
    onnx=_hardsigmoid_onnx,
)
def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6. ATen hardsigmoid, ONNX HardSigmoid-22 (alpha 1/6)."""


hardsigmoid.traits = Traits(elementwise=True, family="activation", in_torch="nn.functional", in_cells=True)


@in_float32
def _hardswish_vjp(g: Tensor, y: Tensor, x: Tensor) -> Any:
    below = elementwise.where(comparison.less_equal(x, -3.0), zero(g), g * (x * (1.0 / 3.0) + 0.5))
    return elementwise.where(comparison.less(x, 3.0), below, g)


def _hardswish_float64(w: Writer, x: str) -> str:
    return w("Mul", x, float64_forms.hardsigmoid(w, x))


@unary(
    infer_floating,
    lambda x: x * _relu6(x + 3) / 6,
    vjp=_hardswish_vjp,
    onnx=or_float64("HardSwish", _hardswish_float64),
)
def hardswish(x: Tensor) -> Tensor:
    """x * hardsigmoid(x) (Howard et al. 2019). ATen hardswish, ONNX HardSwish-22."""


hardswish.traits = Traits(elementwise=True, family="activation", in_torch="nn.functional", in_cells=True)


# ---- softmax ----


@operator
def softmax(x: Tensor, *, axis: int) -> Tensor:
    """exp(x) divided by its sum along `axis`. ATen softmax.int, ONNX Softmax-13."""


softmax.traits = Traits(mixed_precision="float32", family="softmax")


def _softmax_infer(x: Type, *, axis: int) -> Type:
    normalize_axis(axis, x.rank)
    return infer_floating(x)


softmax.infer(_softmax_infer)


@softmax.kernel
def _(x: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    result = np.asarray(x - x.max(axis=axis, keepdims=True))
    np.exp(result, out=result)
    result /= result.sum(axis=axis, keepdims=True)
    return result


@softmax.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    weighted = g * y
    return weighted - y * _sum_along(weighted, axis)


def _sum_along(x: Any, axis: int) -> Any:
    """Return the sum along an axis, which is kept with size 1; a scalar is returned unchanged."""
    return reduction.reduce_sum(x, axes=(axis,), keepdims=True) if len(x.shape) else x


@softmax.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> str:
    return _apply_along(graph, "Softmax", x, axis)


def _apply_along(graph: OnnxGraph, name: str, x: str, axis: int) -> str:
    """Apply an ONNX operator that needs an axis; a tensor without dimensions gets one temporarily."""
    if graph.type(x).rank:
        return str(graph.op(name, x, axis=axis))
    row = graph.op("Reshape", x, graph.constant([1], np.int64))
    return str(graph.op("Reshape", graph.op(name, row, axis=0), graph.constant([], np.int64)))


@operator
def log_softmax(x: Tensor, *, axis: int) -> Tensor:
    """The logarithm of `softmax`, computed without underflow. ATen log_softmax.int, ONNX LogSoftmax-13."""


log_softmax.traits = Traits(mixed_precision="float32", family="softmax")


log_softmax.infer(_softmax_infer)


@log_softmax.kernel
def _(x: Array, *, axis: int) -> Array:
    if x.size == 0:
        return x
    shifted = np.asarray(x - x.max(axis=axis, keepdims=True))
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


@log_softmax.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    return g - elementwise.exp(y) * _sum_along(g, axis)


@log_softmax.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> str:
    return _apply_along(graph, "LogSoftmax", x, axis)
