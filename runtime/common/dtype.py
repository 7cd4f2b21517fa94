"""Dtypes under their names (`float32`, `int64`, ...), as NumPy dtypes (`bfloat16` from ml_dtypes)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import BFLOAT16, as_dtype, is_floating, is_half

DType = np.dtype[Any]

float16: DType = np.dtype(np.float16)
float32: DType = np.dtype(np.float32)
float64: DType = np.dtype(np.float64)
bfloat16: DType = BFLOAT16
int8: DType = np.dtype(np.int8)
int16: DType = np.dtype(np.int16)
int32: DType = np.dtype(np.int32)
int64: DType = np.dtype(np.int64)
uint8: DType = np.dtype(np.uint8)
uint16: DType = np.dtype(np.uint16)
uint32: DType = np.dtype(np.uint32)
uint64: DType = np.dtype(np.uint64)
bool_: DType = np.dtype(np.bool_)

# Aliases. `bool`, `int` and `float` aren't assigned here, since they would hide the builtins.
half, single, double = float16, float32, float64
byte, short, intc, intp, long = int8, int16, int32, int64, int64
ubyte, ushort, uintc, uintp = uint8, uint16, uint32, uint64

ALIASES = {
    "half": half, "single": single, "double": double, "float": float32,
    "byte": byte, "short": short, "intc": intc, "intp": intp, "int": int32, "long": long,
    "ubyte": ubyte, "ushort": ushort, "uintc": uintc, "uintp": uintp,
    "bool": bool_,
}  # fmt: skip


def __getattr__(name: str) -> DType:
    if name in ("bool", "int", "float"):
        return ALIASES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def to_dtype(dtype: Any) -> DType:
    """Convert a dtype, a NumPy scalar type, `bool`/`int`/`float` or a name to a dtype.

    `int` is int64 and `float` is float64, both as types and as names, as in NumPy.

    Raises:
        TypeError: `dtype` is none of these.
    """
    if isinstance(dtype, np.dtype):
        return dtype
    if dtype in (int, float, "int", "float"):
        return int64 if dtype in (int, "int") else float64
    if dtype is bool:
        return bool_
    if isinstance(dtype, str) and dtype.lower() in ALIASES:
        return ALIASES[dtype.lower()]
    try:
        if dtype is not None:  # NumPy would interpret None as float64
            return as_dtype(dtype.lower() if isinstance(dtype, str) else dtype)
    except TypeError:
        pass
    raise TypeError(f"needed a dtype such as float32 or its name, but got {dtype!r}")


def dtype_to_nptype(dtype: Any) -> type:
    """Return the NumPy scalar type of a dtype."""
    scalar: type = to_dtype(dtype).type
    return scalar


def dtype_to_pytype(dtype: Any) -> type:
    """Return `bool`, `int` or `float`, the Python type for the values of a dtype."""
    kind = to_dtype(dtype)
    return float if is_floating(kind) else bool if kind == bool_ else int


def dtype_name(dtype: DType) -> str:
    """Return the display name of a dtype: `Float32`, `BFloat16`, `Int64`, `Bool`."""
    return {"bfloat16": "BFloat16", "uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32",
            "uint64": "UInt64"}.get(dtype.name, dtype.name.capitalize())  # fmt: skip


def promote(a: DType, b: DType) -> DType:
    """Return the dtype in which an elementwise operator computes on tensors of dtypes `a` and `b`.

    An integer and a floating-point dtype give the floating-point dtype, and two dtypes of the same kind give the wider
    one. bfloat16 and float16 give float32.
    """
    if a == b:
        return a
    if is_half(a) and is_half(b):
        return float32
    if bfloat16 in (a, b):
        other = b if a == bfloat16 else a
        return other if is_floating(other) else bfloat16
    if is_floating(a) or is_floating(b):
        return max(a, b, key=lambda t: (is_floating(t), t.itemsize))
    return np.promote_types(a, b)
