"""ONNX quantization: linear scales, matrix products and convolutions of integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import FLOAT32, FLOAT64, INT32, is_floating
from ....runtime.ops import comparison, elementwise, linear, reduction, rounding, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ..model import protos
from .casting import convert
from .context import Context
from .convolution import convolve
from .table import cast, onnx

UINT8 = np.dtype(np.uint8)


def align_scale(scale: SymbolicTensor, x: SymbolicTensor, axis: int, block_size: int) -> Any:
    """Reshape scales or zero points to broadcast to `x`: per tensor, per index of an axis, or per block."""
    if scale.ndim == 0 or scale.shape == (1,):
        return shaping.reshape(scale, shape=()) if scale.ndim else scale
    at = normalize_axis(axis, x.ndim)
    if block_size:
        if scale.ndim != x.ndim:
            raise ShapeError(f"blocks need a scale of {x.ndim} dimensions, given {scale.value.type}")
        spread = shaping.reshape(scale, shape=(*scale.shape[: at + 1], 1, *scale.shape[at + 1 :]))
        shape = list(spread.shape)
        shape[at + 1] = block_size
        spread = shaping.expand(spread, shape=tuple(shape))
        whole = (*scale.shape[:at], scale.shape[at] * block_size, *scale.shape[at + 1 :])
        spread = shaping.reshape(spread, shape=whole)
        if whole[at] == x.shape[at]:
            return spread
        return slicing.slice(spread, starts=(0,), stops=(x.shape[at],), steps=(1,), axes=(at,))
    if scale.ndim == 1:
        return shaping.reshape(scale, shape=tuple(scale.shape[0] if i == at else 1 for i in range(x.ndim)))
    return scale


def quantize(x: SymbolicTensor, scale: Any, zero_point: Any, dtype: np.dtype[Any], *, saturate: bool = True) -> Any:
    """round(x / scale) + zero_point, saturated to an integer dtype; for a float dtype, x / scale."""
    scaled = elementwise.div(x, cast(scale, x.dtype))
    if "float" in dtype.name:
        if zero_point is not None and dtype.name.startswith("float4"):
            scaled = scaled + cast(cast(zero_point, FLOAT32), scaled.dtype)
        return convert(scaled, dtype, saturate=saturate)
    low, high = _range(dtype)
    whole = rounding.round(scaled)
    if zero_point is not None:
        whole = elementwise.add(cast(whole, FLOAT64), cast(cast(zero_point, INT32), FLOAT64))
    return cast(cast(elementwise.clamp(whole, minimum=float(low), maximum=float(high)), INT32), dtype)


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits: Any = ml_dtypes.iinfo  # it has no type hints
    info = limits(dtype)
    return int(info.min), int(info.max)


@onnx("QuantizeLinear")
def quantize_linear(
    context: Context, x: SymbolicTensor, y_scale: SymbolicTensor, y_zero_point: SymbolicTensor | None = None, *,
    axis: int = 1,
    block_size: int = 0, output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    """QuantizeLinear-10..28(x, y_scale, y_zero_point?) -> y"""
    dtype = UINT8 if not output_dtype else protos.dtype_of(output_dtype, "QuantizeLinear")
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
    kind = protos.dtype_of(precision, "QuantizeLinear") if precision else y_scale.dtype
    kind = kind if is_floating(kind) else FLOAT32
    scale = cast(align_scale(y_scale, x, axis, block_size), kind)
    zero = None if y_zero_point is None else align_scale(y_zero_point, x, axis, block_size)
    return quantize(cast(x, kind), scale, zero, dtype, saturate=bool(saturate))


@onnx("DequantizeLinear")
def dequantize_linear(
    context: Context, x: SymbolicTensor, x_scale: SymbolicTensor, x_zero_point: SymbolicTensor | None = None, *,
    axis: int = 1,
    block_size: int = 0, output_dtype: int = 0,
) -> Any:  # fmt: skip
    """DequantizeLinear-10..28(x, x_scale, x_zero_point?) -> y"""
    dtype = protos.dtype_of(output_dtype, "DequantizeLinear") if output_dtype else x_scale.dtype
    wide = dtype if is_floating(dtype) else FLOAT32
    scale = cast(cast(align_scale(x_scale, x, axis, block_size), FLOAT32), wide)
    whole = x.dtype.kind in "iu" or x.dtype.name in ("int4", "uint4", "int2", "uint2")
    value = cast(x, INT32 if whole else wide)
    if x_zero_point is not None:
        zero = align_scale(x_zero_point, x, axis, block_size)
        value = elementwise.sub(value, cast(zero, value.dtype))
    return cast(elementwise.mul(cast(value, wide), scale), dtype)


@onnx("DynamicQuantizeLinear")
def dynamic_quantize_linear(context: Context, x: SymbolicTensor) -> Any:
    """DynamicQuantizeLinear-11(x) -> y, y_scale, y_zero_point"""
    zero = np.zeros((), x.dtype)
    low = elementwise.minimum(reduction.reduce_min(x), zero)
    high = elementwise.maximum(reduction.reduce_max(x), zero)
    width = high - low
    # zeros have a width of 0; ONNX Runtime's scale is 1 then
    scale = elementwise.where(comparison.equal(width, zero), np.ones((), x.dtype), width / 255.0)
    offset = rounding.round(elementwise.clamp(-low / scale, minimum=0.0, maximum=255.0))
    point = cast(offset, UINT8)
    return quantize(x, scale, point, UINT8), scale, point


def _subtract_zero_point(x: SymbolicTensor, zero_point: Any, axis: int | None = None) -> Any:
    """`x` minus its zero point, in int32; a vector of zero points applies along `axis`."""
    wide = cast(x, INT32)
    if zero_point is None:
        return wide
    zero = cast(zero_point, INT32)
    if zero.ndim == 1 and axis is not None and zero.shape != (1,):
        at = normalize_axis(axis, x.ndim)
        zero = shaping.reshape(zero, shape=tuple(zero.shape[0] if i == at else 1 for i in range(x.ndim)))
    return elementwise.sub(wide, zero)


def _product(a: Any, b: Any) -> Any:
    """The product of integer matrices, exact in float64: fewer than 2**20 products of 16 bits each."""
    return cast(linear.matmul(cast(a, FLOAT64), cast(b, FLOAT64)), INT32)


@onnx("MatMulInteger")
def matmul_integer(
    context: Context,
    A: SymbolicTensor,
    B: SymbolicTensor,
    a_zero_point: SymbolicTensor | None = None,
    b_zero_point: SymbolicTensor | None = None,
) -> Any:
    """MatMulInteger-10(A, B, a_zero_point?, b_zero_point?) -> Y"""
    return _product(
        _subtract_zero_point(A, a_zero_point, -2 if A.ndim > 1 else None), _subtract_zero_point(B, b_zero_point, -1)
    )


@onnx("QLinearMatMul")
def qlinear_matmul(
    context: Context, a: SymbolicTensor, a_scale: SymbolicTensor, a_zero_point: SymbolicTensor, b: SymbolicTensor,
    b_scale: SymbolicTensor,
    b_zero_point: SymbolicTensor, y_scale: SymbolicTensor, y_zero_point: SymbolicTensor,
) -> Any:  # fmt: skip
    """QLinearMatMul-10..21(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point) -> y"""
    total = _product(_subtract_zero_point(a, a_zero_point, -2), _subtract_zero_point(b, b_zero_point, -1))
    scale = cast(_rowwise(a_scale, a.ndim), FLOAT32) * cast(b_scale, FLOAT32) / cast(y_scale, FLOAT32)
    return quantize(cast(total, FLOAT32) * scale, np.ones((), np.float32), y_zero_point, y_zero_point.dtype)


def _rowwise(scale: SymbolicTensor, rank: int) -> Any:
    """A scale per row as a column."""
    if scale.ndim == 1 and scale.shape != (1,) and rank > 1:
        return shaping.reshape(scale, shape=(scale.shape[0], 1))
    return scale


@onnx("ConvInteger")
def conv_integer(
    context: Context, x: SymbolicTensor, w: SymbolicTensor, x_zero_point: SymbolicTensor | None = None,
    w_zero_point: SymbolicTensor | None = None,
    *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """ConvInteger-10(x, w, x_zero_point?, w_zero_point?) -> y"""
    centred_x, centred_w = (
        cast(_subtract_zero_point(x, x_zero_point), FLOAT64),
        cast(_subtract_zero_point(w, w_zero_point, 0), FLOAT64),
    )
    y = convolve(centred_x, centred_w, None, auto_pad, dilations, group, kernel_shape, pads, strides)
    return cast(y, INT32)


@onnx("QLinearConv")
def qlinear_conv(
    context: Context, x: SymbolicTensor, x_scale: SymbolicTensor, x_zero_point: SymbolicTensor, w: SymbolicTensor,
    w_scale: SymbolicTensor,
    w_zero_point: SymbolicTensor, y_scale: SymbolicTensor, y_zero_point: SymbolicTensor,
    B: SymbolicTensor | None = None, *,
    auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """QLinearConv-10(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B?) -> y"""
    centred_x, centred_w = (
        cast(_subtract_zero_point(x, x_zero_point), FLOAT64),
        cast(_subtract_zero_point(w, w_zero_point, 0), FLOAT64),
    )
    bias = None if B is None else cast(B, FLOAT64)
    y = convolve(centred_x, centred_w, bias, auto_pad, dilations, group, kernel_shape, pads, strides)
    scale = x_scale * w_scale / y_scale
    if scale.ndim == 1 and scale.shape != (1,):
        scale = shaping.reshape(scale, shape=(scale.shape[0], *(1,) * (x.ndim - 2)))
    return quantize(cast(y, FLOAT32) * scale, np.ones((), np.float32), y_zero_point, y_zero_point.dtype)
