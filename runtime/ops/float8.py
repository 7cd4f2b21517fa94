"""Conversion to the floats of 8 bits, as ATen's `_to_copy` rounds, saturates and overflows (torch 2.13).

float8_e4m3fn      saturates at 448, infinity too
float8_e5m2        overflows to infinity
float8_e4m3fnuz    overflows to NaN, and so does float8_e5m2fnuz
float8_e8m0fnu     the nearest power of two of the absolute value; 2^-127 for 0
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..ir.types import FLOAT32, carries_gradients, is_floating
from .registry import Array, OnnxGraph

SATURATING: np.dtype[Any] = np.dtype(ml_dtypes.float8_e4m3fn)
LARGEST = 448.0
"""The largest finite float8_e4m3fn."""
POWERS: np.dtype[Any] = np.dtype(ml_dtypes.float8_e8m0fnu)
LEAST_POWER = 2.0**-127


def is_float8(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is a float of 8 bits."""
    return carries_gradients(dtype) and not is_floating(dtype)


def to_float8(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return `x` in a dtype of 8-bit floats; ml_dtypes itself overflows to NaN in all but float8_e5m2."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = x if x.dtype.isbuiltin == 1 else x.astype(FLOAT32)
        if dtype == SATURATING:
            wide = np.clip(wide, -LARGEST, LARGEST)
        elif dtype == POWERS:
            wide = np.maximum(np.abs(wide.astype(FLOAT32)), FLOAT32.type(LEAST_POWER))
        return wide.astype(dtype)


def cast_to_float8(graph: OnnxGraph, x: str, dtype: np.dtype[Any]) -> str:
    """Emit Cast-24 to a dtype of 8-bit floats, which saturates at the largest finite number unless told otherwise."""
    if dtype == POWERS:
        positive = graph.op("Abs", graph.cast(x, FLOAT32))
        raised = graph.op("Max", positive, graph.constant(LEAST_POWER))
        return str(graph.op("Cast", raised, to=dtype, round_mode="nearest"))
    if dtype == SATURATING or not is_floating(graph.type(x).dtype):
        return graph.cast(x, dtype)
    return str(graph.op("Cast", x, to=dtype, saturate=0))
