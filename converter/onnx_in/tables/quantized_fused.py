"""Operators of the domain com.microsoft on integers, which ONNX Runtime's quantizer creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import FLOAT32, INT32, is_floating
from ....runtime.ops import activation, comparison, elementwise, linear, reduction, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .fused import DOMAIN
from .pooling import average_pool
from .quantization import UINT8, align_scale, dequantize_linear, dynamic_quantize_linear, quantize, quantize_linear
from .table import cast, onnx


def _dequantize(x: Any, scale: Any, zero: Any, *, axis: int | None = None) -> Any:
    """Dequantize integers; a vector of scales applies along `axis`."""
    if x is None or scale is None:
        raise ShapeError("a tensor, or its scale, is missing")
    value = cast(x, INT32)
    if zero is not None:
        value = elementwise.sub(value, _align_scale(cast(zero, INT32), x, axis))
    return elementwise.mul(cast(value, FLOAT32), _align_scale(cast(scale, FLOAT32), x, axis))


def _align_scale(numbers: Any, x: Any, axis: int | None) -> Any:
    """One number, or a vector along `axis` of `x`, reshaped to broadcast to `x`."""
    if numbers.ndim != 0 and numbers.shape != (1,) and (axis is None or numbers.ndim != 1):
        raise Unsupported(f"a scale or zero point of {numbers.ndim} dimensions")
    return align_scale(numbers, x, axis or 0, 0)


def _quantize(y: Any, scale: Any, zero: Any, dtype: Any) -> Any:
    """Quantize real numbers with a scale and a zero point."""
    if scale is None:
        raise ShapeError("the scale of the result is missing")
    point = None if zero is None else _align_scale(zero, y, None)
    return quantize(y, _align_scale(cast(scale, FLOAT32), y, None), point, dtype if zero is None else zero.dtype)


def _register_pair(operator: str, combine: Callable[[Any, Any], Any]) -> None:
    def function(
        context: Context, A: SymbolicTensor, A_scale: SymbolicTensor, A_zero_point: Any = None, B: Any = None,
        B_scale: Any = None,
        B_zero_point: Any = None, C_scale: Any = None, C_zero_point: Any = None,
    ) -> Any:  # fmt: skip
        c = combine(_dequantize(A, A_scale, A_zero_point), _dequantize(B, B_scale, B_zero_point))
        return _quantize(c, C_scale, C_zero_point, A.dtype)

    operands = "A, A_scale, A_zero_point?, B, B_scale, B_zero_point?, C_scale, C_zero_point?"
    function.__doc__ = f"com.microsoft.{operator}-1({operands}) -> C"
    onnx(operator, domain=DOMAIN)(function)


_register_pair("QLinearAdd", elementwise.add)
_register_pair("QLinearMul", elementwise.mul)


@onnx("QLinearSigmoid", domain=DOMAIN)
def qlinear_sigmoid(
    context: Context, X: SymbolicTensor, X_scale: SymbolicTensor, X_zero_point: Any = None, Y_scale: Any = None,
    Y_zero_point: Any = None,
) -> Any:  # fmt: skip
    """com.microsoft.QLinearSigmoid-1(X, X_scale, X_zero_point?, Y_scale, Y_zero_point?) -> Y"""
    return _quantize(elementwise.sigmoid(_dequantize(X, X_scale, X_zero_point)), Y_scale, Y_zero_point, X.dtype)


@onnx("QLinearLeakyRelu", domain=DOMAIN)
def qlinear_leaky_relu(
    context: Context, X: SymbolicTensor, X_scale: SymbolicTensor, X_zero_point: Any = None, Y_scale: Any = None,
    Y_zero_point: Any = None, *, alpha: float = 0.01,
) -> Any:  # fmt: skip
    """com.microsoft.QLinearLeakyRelu-1(X, X_scale, X_zero_point?, Y_scale, Y_zero_point?) -> Y"""
    x = _dequantize(X, X_scale, X_zero_point)
    y = elementwise.where(comparison.less(x, np.zeros((), np.float32)), x * float(alpha), x)
    return _quantize(y, Y_scale, Y_zero_point, X.dtype)


@onnx("QLinearSoftmax", domain=DOMAIN)
def qlinear_softmax(
    context: Context, X: SymbolicTensor, X_scale: SymbolicTensor, x_zero_point: Any = None, y_scale: Any = None,
    y_zero_point: Any = None, *, axis: int = -1, opset: int,
) -> Any:  # fmt: skip
    """com.microsoft.QLinearSoftmax-1(X, X_scale, x_zero_point?, y_scale, y_zero_point) -> Y"""
    x, at = _dequantize(X, X_scale, x_zero_point), normalize_axis(axis, X.ndim)
    if opset >= 13 or at == X.ndim - 1:
        return _quantize(activation.softmax(x, axis=at), y_scale, y_zero_point, X.dtype)
    flat = shaping.reshape(x, shape=(*x.shape[:at], _product(x.shape[at:])))
    y = shaping.reshape(activation.softmax(flat, axis=at), shape=x.shape)
    return _quantize(y, y_scale, y_zero_point, X.dtype)


def _product(sizes: Any) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


def _move_channels(x: Any, last: int, *, back: bool = False) -> Any:
    """Move channels that come last to the second axis, or back."""
    if not last:
        return x
    order = (0, *range(2, x.ndim), 1) if back else (0, x.ndim - 1, *range(1, x.ndim - 1))
    return shaping.transpose(x, permutation=order)


@onnx("QLinearGlobalAveragePool", domain=DOMAIN)
def qlinear_global_average_pool(
    context: Context, X: SymbolicTensor, x_scale: SymbolicTensor, x_zero_point: SymbolicTensor, y_scale: SymbolicTensor,
    y_zero_point: SymbolicTensor, *,
    channels_last: int = 0,
) -> Any:  # fmt: skip
    """com.microsoft.QLinearGlobalAveragePool-1(X, x_scale, x_zero_point, y_scale, y_zero_point) -> Y"""
    x = _move_channels(_dequantize(X, x_scale, x_zero_point), channels_last)
    y = reduction.reduce_mean(x, axes=tuple(range(2, x.ndim)), keepdims=True)
    return _quantize(_move_channels(y, channels_last, back=True), y_scale, y_zero_point, X.dtype)


@onnx("QLinearAveragePool", domain=DOMAIN)
def qlinear_average_pool(
    context: Context, X: SymbolicTensor, x_scale: SymbolicTensor, x_zero_point: Any = None, y_scale: Any = None,
    y_zero_point: Any = None, *, channels_last: int = 0, kernel_shape: Any, **window: Any,
) -> Any:  # fmt: skip
    """com.microsoft.QLinearAveragePool-1(X, x_scale, x_zero_point?, y_scale, y_zero_point?) -> Y"""
    if unknown := sorted(window.keys() - {"auto_pad", "ceil_mode", "count_include_pad", "pads", "strides"}):
        raise Unsupported(f"attribute {unknown[0]!r}")
    x = _move_channels(_dequantize(X, x_scale, x_zero_point), channels_last)
    y = average_pool(context, x, kernel_shape=kernel_shape, **window)
    return _quantize(_move_channels(y, channels_last, back=True), y_scale, y_zero_point, X.dtype)


@onnx("QLinearWhere", domain=DOMAIN)
def qlinear_where(
    context: Context, condition: SymbolicTensor, X: SymbolicTensor, x_scale: SymbolicTensor,
    x_zero_point: SymbolicTensor, Y: SymbolicTensor, y_scale: SymbolicTensor,
    y_zero_point: SymbolicTensor, z_scale: SymbolicTensor, z_zero_point: SymbolicTensor,
) -> Any:  # fmt: skip
    """com.microsoft.QLinearWhere-1(condition, X, x_scale, x_zero_point, Y, y_scale, ..., z_zero_point) -> Z"""
    z = elementwise.where(condition, _dequantize(X, x_scale, x_zero_point), _dequantize(Y, y_scale, y_zero_point))
    return _quantize(z, z_scale, z_zero_point, X.dtype)


@onnx("QLinearConcat", domain=DOMAIN)
def qlinear_concat(
    context: Context, Y_scale: SymbolicTensor, Y_zero_point: SymbolicTensor, *inputs: SymbolicTensor, axis: int
) -> Any:
    """com.microsoft.QLinearConcat-1(Y_scale, Y_zero_point, *(X, X_scale, X_zero_point)) -> Y"""
    if not inputs or len(inputs) % 3:
        raise ShapeError(f"needed a scale and a zero point with each tensor, given {len(inputs)} operands")
    parts = [_dequantize(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    y = slicing.concat(*parts, axis=normalize_axis(axis, parts[0].ndim))
    return _quantize(y, Y_scale, Y_zero_point, Y_zero_point.dtype)


@onnx("QGemm", domain=DOMAIN)
def qgemm(
    context: Context, A: SymbolicTensor, a_scale: SymbolicTensor, a_zero_point: SymbolicTensor, B: SymbolicTensor,
    b_scale: SymbolicTensor,
    b_zero_point: SymbolicTensor, C: Any = None, y_scale: Any = None, y_zero_point: Any = None, *, alpha: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    """com.microsoft.QGemm-1(A, a_scale, a_zero_point, B, b_scale, b_zero_point, C?, y_scale?, y_zero_point?) -> Y"""
    if A.ndim != 2 or B.ndim != 2:
        raise ShapeError(f"needed matrices, given {A.value.type} and {B.value.type}")
    if b_zero_point.ndim == 1 and b_zero_point.shape != (1,) and b_scale.ndim == 0:
        raise ShapeError("zero points of columns need scales of columns")
    a, b = _dequantize(A, a_scale, a_zero_point), _dequantize(B, b_scale, b_zero_point, axis=0 if transB else 1)
    a = shaping.transpose(a, permutation=(1, 0)) if transA else a
    b = shaping.transpose(b, permutation=(1, 0)) if transB else b
    y = linear.matmul(a, b) * float(alpha)
    if C is not None:  # in units of the product
        step = elementwise.mul(
            _align_scale(cast(a_scale, FLOAT32), y, None), _align_scale(cast(b_scale, FLOAT32), y, 1)
        )
        y = elementwise.add(y, elementwise.mul(cast(C, FLOAT32), step * float(alpha)))
    return y if y_scale is None else _quantize(y, y_scale, y_zero_point, A.dtype)


@onnx("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_integer_to_float(
    context: Context, A: SymbolicTensor, B: SymbolicTensor, a_scale: SymbolicTensor, b_scale: SymbolicTensor,
    a_zero_point: Any = None,
    b_zero_point: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    """com.microsoft.MatMulIntegerToFloat-1(A, B, a_scale, b_scale, a_zero_point?, b_zero_point?, bias?) -> Y"""
    y = linear.matmul(_dequantize(A, a_scale, a_zero_point), _dequantize(B, b_scale, b_zero_point, axis=-1))
    return y if bias is None else elementwise.add(y, cast(bias, FLOAT32))


@onnx("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_quantize_matmul(
    context: Context,
    A: SymbolicTensor,
    B: SymbolicTensor,
    b_scale: SymbolicTensor,
    b_zero_point: Any = None,
    bias: Any = None,
) -> Any:
    """com.microsoft.DynamicQuantizeMatMul-1(A, B, b_scale, b_zero_point?, bias?) -> Y: A is quantized first"""
    whole, scale, zero = dynamic_quantize_linear(context, A)
    return matmul_integer_to_float(context, whole, B, scale, b_scale, zero, b_zero_point, bias)


@onnx("QuantizeLinear", domain=DOMAIN)
def microsoft_quantize_linear(
    context: Context, x: SymbolicTensor, y_scale: SymbolicTensor, y_zero_point: Any = None, *, axis: int = 1
) -> Any:
    """com.microsoft.QuantizeLinear-1(x, y_scale, y_zero_point?) -> y"""
    return quantize_linear(context, x, y_scale, y_zero_point, axis=axis)


@onnx("DequantizeLinear", domain=DOMAIN)
def microsoft_dequantize_linear(
    context: Context, x: SymbolicTensor, x_scale: SymbolicTensor, x_zero_point: Any = None, *, axis: int = 1
) -> Any:
    """com.microsoft.DequantizeLinear-1(x, x_scale, x_zero_point?) -> y"""
    return dequantize_linear(context, x, x_scale, x_zero_point, axis=axis)


@onnx("MatMulNBits", domain=DOMAIN)
def matmul_nbits(
    context: Context, A: SymbolicTensor, B: SymbolicTensor, scales: SymbolicTensor, zero_points: Any = None,
    g_idx: Any = None,
    bias: Any = None, *, K: int, N: int, accuracy_level: int = 0, bits: int = 4, block_size: int,
    weight_prepacked: int = 0,
) -> Any:  # fmt: skip
    """com.microsoft.MatMulNBits-1(A, B, scales, zero_points?, g_idx?, bias?) -> Y: B has one scale per block"""
    if g_idx is not None or weight_prepacked or bits not in (4, 8):
        raise Unsupported(f"weights of {bits} bits, prepacked weights or a g_idx")
    if not (1 <= K <= 2**31 and 1 <= N <= 2**31 and 16 <= block_size <= 2**16) or block_size & (block_size - 1):
        raise ShapeError(f"there is no product of K = {K} and N = {N} in blocks of {block_size}")
    blocks = -(-K // block_size)
    if B.shape != (N, blocks, block_size * bits // 8) or B.dtype != UINT8:
        raise ShapeError(f"needed B as uint8[{N}, {blocks}, {block_size * bits // 8}], given {B.value.type}")
    weight = cast(_unpack(B, bits), FLOAT32)
    middle = np.asarray(2 ** (bits - 1), np.float32)
    zero: Any = middle if zero_points is None else _zero_points(zero_points, N, blocks, bits)
    whole = shaping.reshape(weight, shape=(N, blocks, block_size)) - zero
    by_block = elementwise.mul(whole, shaping.reshape(cast(scales, FLOAT32), shape=(N, blocks, 1)))
    rows = shaping.reshape(by_block, shape=(N, blocks * block_size))
    if blocks * block_size != K:
        rows = slicing.slice(rows, starts=(0,), stops=(K,), steps=(1,), axes=(1,))
    y = linear.matmul(A, cast(shaping.transpose(rows, permutation=(1, 0)), A.dtype))
    return y if bias is None else elementwise.add(y, cast(bias, A.dtype))


def _unpack(x: Any, bits: int) -> Any:
    """Unpack the numbers in bytes along the last axis; with 4 bits, the lower ones come first."""
    if bits == 8:
        return x
    low, high = comparison.bitwise_and(x, np.asarray(15, np.uint8)), comparison.right_shift(x, np.asarray(4, np.uint8))
    pairs = slicing.concat(*(shaping.reshape(part, shape=(*x.shape, 1)) for part in (low, high)), axis=x.ndim)
    return shaping.reshape(pairs, shape=(*x.shape[:-1], x.shape[-1] * 2))


def _zero_points(x: Any, count: int, blocks: int, bits: int) -> Any:
    """Zero points of shape (N, blocks, 1): real numbers, or integers packed like the weight."""
    if is_floating(x.dtype):
        return shaping.reshape(cast(x, FLOAT32), shape=(count, blocks, 1))
    width = -(-blocks * bits // 8)
    flat = cast(_unpack(shaping.reshape(x, shape=(count, width)), bits), FLOAT32)
    if flat.shape[1] != blocks:
        flat = slicing.slice(flat, starts=(0,), stops=(blocks,), steps=(1,), axes=(1,))
    return shaping.reshape(flat, shape=(count, blocks, 1))
