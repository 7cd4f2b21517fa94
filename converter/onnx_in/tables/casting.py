"""ONNX conversions between dtypes, including the narrow ones of quantized models."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL, FLOAT32, INT32, is_floating
from ....runtime.ops import bits, comparison, elementwise, float8
from ....runtime.tracing import SymbolicTensor
from ..model import protos
from .context import Context
from .table import cast, onnx

OVERFLOWING = ("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
"""8-bit floats that overflow in the IR; float8_e4m3fn saturates there."""
_ROUNDED_TO_LARGEST = float8.LARGEST + 16.0  # half a unit in the last place above it
ROUNDING = ("up", "down", "nearest")


def convert(x: SymbolicTensor, dtype: np.dtype[Any], *, saturate: bool = True, round_mode: str = "up") -> Any:
    """`x` in `dtype` by the rules of Cast-25: 8-bit floats saturate; `round_mode` applies to float8_e8m0."""
    if x.dtype == dtype:
        return x
    limits: Any = ml_dtypes.finfo  # it has no type hints
    if dtype.name == "float8_e8m0fnu":
        return _exponent(x, dtype, round_mode)
    if dtype.name in OVERFLOWING and saturate and is_floating(x.dtype):
        most = float(limits(dtype).max)
        x = elementwise.clamp(x, minimum=-most, maximum=most)
    elif dtype == float8.SATURATING and not saturate and is_floating(x.dtype):
        overflows = comparison.greater(elementwise.abs(x), _ROUNDED_TO_LARGEST)
        x = elementwise.where(overflows, np.asarray(np.nan).astype(x.dtype), x)
    if dtype.name in ("int4", "uint4", "int2", "uint2") and is_floating(x.dtype):
        x = cast(x, INT32)  # rounds towards zero; the cast below keeps the lowest bits
    if x.dtype.kind == "V" and not is_floating(x.dtype) and dtype == BOOL:
        x = cast(x, FLOAT32)
    return cast(x, dtype)


def _exponent(x: SymbolicTensor, dtype: np.dtype[Any], round_mode: str) -> Any:
    """Convert to a dtype of powers of two, which stores only the exponent."""
    if round_mode not in ROUNDING:
        raise ShapeError(f"round_mode must be one of {', '.join(ROUNDING)}, given {round_mode!r}")
    wide = cast(x, FLOAT32)
    limits: Any = ml_dtypes.finfo  # it has no type hints
    least, most = float(limits(dtype).smallest_normal), float(limits(dtype).max)
    nearest = cast(cast(elementwise.clamp(wide, minimum=least, maximum=most), dtype), FLOAT32)
    if round_mode == "up":
        nearest = elementwise.where(comparison.less(nearest, wide), nearest * 2.0, nearest)
    elif round_mode == "down":
        nearest = elementwise.where(comparison.greater(nearest, wide), nearest * 0.5, nearest)
    return cast(elementwise.clamp(nearest, minimum=least, maximum=most), dtype)


@onnx("Cast")
def cast_(context: Context, input: SymbolicTensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """Cast-6..28(input) -> output"""
    return convert(input, protos.dtype_of(to, "Cast"), saturate=bool(saturate), round_mode=round_mode)


@onnx("CastLike", likes=("target_type",))
def cast_like(
    context: Context, input: SymbolicTensor, target_type: Any, *, saturate: int = 1, round_mode: str = "up"
) -> Any:
    """CastLike-15..25(input, target_type) -> output"""
    return convert(input, target_type.dtype, saturate=bool(saturate), round_mode=round_mode)


@onnx("BitCast")
def bit_cast(context: Context, input: SymbolicTensor, *, to: int) -> Any:
    """BitCast-26(input) -> output: the same bits read as another dtype of the same width"""
    return bits.bitcast(input, dtype=protos.dtype_of(to, "BitCast"))
