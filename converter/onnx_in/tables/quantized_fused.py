"""Operators of the domain com.microsoft on the codes of quantizers, as onnxruntime.quantization writes them.

Each computes with the numbers that codes stand for, in float32, and rounds its result to codes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import FLOAT32, FLOAT64
from ....runtime.ops import activation, elementwise, reduction, shaping
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import Traced
from ..context import Context
from ..table import Unsupported, cast, onnx
from .fused import DOMAIN
from .pooling import average_pool
from .quantization import centred, dequantize_linear, product_of_codes, quantize_linear, quantized


def _numbers(context: Context, codes: Traced, scale: Traced, zero_point: Traced | None) -> Any:
    return dequantize_linear(context, codes, scale, zero_point)


def _codes(context: Context, y: Any, scale: Traced, zero_point: Traced | None) -> Any:
    return quantize_linear(context, y, scale, zero_point)


@onnx("QuantizeLinear", domain=DOMAIN)
def quantize(context: Context, x: Traced, y_scale: Traced, y_zero_point: Traced | None = None, *, axis: int = 1) -> Any:
    """QuantizeLinear-1(x, y_scale, y_zero_point?) -> y: for codes of 16 bits before opset 21"""
    return quantize_linear(context, x, y_scale, y_zero_point, axis=axis)


@onnx("DequantizeLinear", domain=DOMAIN)
def dequantize(
    context: Context, x: Traced, x_scale: Traced, x_zero_point: Traced | None = None, *, axis: int = 1
) -> Any:
    """DequantizeLinear-1(x, x_scale, x_zero_point?) -> y"""
    return dequantize_linear(context, x, x_scale, x_zero_point, axis=axis)


@onnx("QLinearAdd", domain=DOMAIN)
def add(
    context: Context, A: Traced, A_scale: Traced, A_zero_point: Traced | None, B: Traced, B_scale: Traced,
    B_zero_point: Traced | None, C_scale: Traced, C_zero_point: Traced | None = None,
) -> Any:  # fmt: skip
    """QLinearAdd-1(A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point?) -> C"""
    a, b = _numbers(context, A, A_scale, A_zero_point), _numbers(context, B, B_scale, B_zero_point)
    return _codes(context, context.broadcast("Add", a, b), C_scale, C_zero_point)


@onnx("QLinearMul", domain=DOMAIN)
def mul(
    context: Context, A: Traced, A_scale: Traced, A_zero_point: Traced | None, B: Traced, B_scale: Traced,
    B_zero_point: Traced | None, C_scale: Traced, C_zero_point: Traced | None = None,
) -> Any:  # fmt: skip
    """QLinearMul-1(A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point?) -> C"""
    a, b = _numbers(context, A, A_scale, A_zero_point), _numbers(context, B, B_scale, B_zero_point)
    return _codes(context, context.broadcast("Mul", a, b), C_scale, C_zero_point)


@onnx("QLinearSigmoid", domain=DOMAIN)
def sigmoid(
    context: Context, X: Traced, X_scale: Traced, X_zero_point: Traced | None, Y_scale: Traced,
    Y_zero_point: Traced | None = None,
) -> Any:  # fmt: skip
    """QLinearSigmoid-1(X, X_scale, X_zero_point, Y_scale, Y_zero_point?) -> Y"""
    return _codes(context, elementwise.sigmoid(_numbers(context, X, X_scale, X_zero_point)), Y_scale, Y_zero_point)


@onnx("QLinearLeakyRelu", domain=DOMAIN)
def leaky_relu(
    context: Context, X: Traced, X_scale: Traced, X_zero_point: Traced | None, Y_scale: Traced,
    Y_zero_point: Traced | None = None, *, alpha: float = 0.01,
) -> Any:  # fmt: skip
    """QLinearLeakyRelu-1(X, X_scale, X_zero_point, Y_scale, Y_zero_point?) -> Y"""
    x = _numbers(context, X, X_scale, X_zero_point)
    return _codes(context, elementwise.maximum(x, 0.0) + elementwise.minimum(x, 0.0) * alpha, Y_scale, Y_zero_point)


@onnx("QLinearSoftmax", domain=DOMAIN)
def softmax(
    context: Context, X: Traced, X_scale: Traced, x_zero_point: Traced | None, y_scale: Traced, y_zero_point: Traced,
    *, axis: int = -1, opset: int,
) -> Any:  # fmt: skip
    """QLinearSoftmax-1(X, X_scale, x_zero_point, y_scale, y_zero_point) -> Y"""
    x = _numbers(context, X, X_scale, x_zero_point)
    if opset < 13 and normalize_axis(axis, x.ndim) != x.ndim - 1:
        raise Unsupported("over several axes, as before opset 13")
    return _codes(context, activation.softmax(x, axis=normalize_axis(axis, x.ndim)), y_scale, y_zero_point)


@onnx("QLinearGlobalAveragePool", domain=DOMAIN)
def global_average_pool(
    context: Context, X: Traced, x_scale: Traced, x_zero_point: Traced, y_scale: Traced, y_zero_point: Traced,
    *, channels_last: int = 0,
) -> Any:  # fmt: skip
    """QLinearGlobalAveragePool-1(X, x_scale, x_zero_point, y_scale, y_zero_point) -> Y"""
    axes = tuple(range(1, X.ndim - 1)) if channels_last else tuple(range(2, X.ndim))
    total = reduction.reduce_mean(_numbers(context, X, x_scale, x_zero_point), axes=axes, keepdims=True)
    return _codes(context, total, y_scale, y_zero_point)


@onnx("QLinearAveragePool", domain=DOMAIN)
def q_average_pool(
    context: Context, X: Traced, x_scale: Traced, x_zero_point: Traced | None, y_scale: Traced,
    y_zero_point: Traced | None = None, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, channels_last: int = 0,
    count_include_pad: int = 0, kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """QLinearAveragePool-1(X, x_scale, x_zero_point, y_scale, y_zero_point?) -> Y"""
    if channels_last:
        raise Unsupported("channels_last")
    pooled = average_pool(
        context, _numbers(context, X, x_scale, x_zero_point), auto_pad=auto_pad, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return _codes(context, pooled, y_scale, y_zero_point)


@onnx("QLinearConcat", domain=DOMAIN)
def concat(context: Context, Y_scale: Traced, Y_zero_point: Traced, *inputs: Traced, axis: int) -> Any:
    """QLinearConcat-1(Y_scale, Y_zero_point, *inputs) -> Y: of each input codes, scale and zero point"""
    if not inputs or len(inputs) % 3:
        raise ShapeError(f"needed codes, scale and zero point of each input, given {len(inputs)} operands")
    parts = [_numbers(context, *inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    whole = shaping.concat(*parts, axis=normalize_axis(axis, parts[0].ndim))
    return _codes(context, whole, Y_scale, Y_zero_point)


@onnx("QLinearWhere", domain=DOMAIN)
def where(
    context: Context, condition: Traced, X: Traced, x_scale: Traced, x_zero_point: Traced, Y: Traced, y_scale: Traced,
    y_zero_point: Traced, z_scale: Traced, z_zero_point: Traced,
) -> Any:  # fmt: skip
    """QLinearWhere-1(condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point) -> Z"""
    x, y = _numbers(context, X, x_scale, x_zero_point), _numbers(context, Y, y_scale, y_zero_point)
    return _codes(context, context.broadcast("Where", condition, x, y, dtype=FLOAT32), z_scale, z_zero_point)


@onnx("QGemm", domain=DOMAIN)
def gemm(
    context: Context, A: Traced, a_scale: Traced, a_zero_point: Traced, B: Traced, b_scale: Traced,
    b_zero_point: Traced, C: Traced | None = None, y_scale: Traced | None = None, y_zero_point: Traced | None = None,
    *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    """QGemm-1(A, a_scale, a_zero_point, B, b_scale, b_zero_point, C?, y_scale?, y_zero_point?) -> Y

    C has the scale alpha * a_scale * b_scale; without y_scale the result is a number.
    """
    a, b = centred(A, a_zero_point), centred(B, b_zero_point, 0 if transB else 1)
    a = shaping.transpose(a, permutation=(1, 0)) if transA else a
    b = shaping.transpose(b, permutation=(1, 0)) if transB else b
    total = product_of_codes(a, b)
    if C is not None:
        total = context.broadcast("Add", total, C)
    step = a_scale * b_scale * np.float32(alpha)
    if y_scale is None or y_zero_point is None:
        return cast(cast(total, FLOAT64) * cast(step, FLOAT64), FLOAT32)
    return quantized(cast(total, FLOAT32) * (step / y_scale), np.ones((), np.float32), y_zero_point, y_zero_point.dtype)
