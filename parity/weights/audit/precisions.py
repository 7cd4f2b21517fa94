"""How exactly a dtype holds numbers, and whether numbers were rounded to one."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..arrangements import Array

BLOCK_FORMAT = 0.1
"""The relative error of a number in a block format of 4 bits or more."""
_FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
COARSE = _FLOATS[2:]
"""Formats through which numbers in float32 may have been rounded, the finest first."""


def relative_error(dtype: str) -> float:
    """Return the largest relative error of a number that is rounded to a dtype, by its name; 0 for whole numbers."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        return BLOCK_FORMAT
    if kind.kind in "biu":
        return 0.0
    return float(ml_dtypes.finfo(kind).eps) / 2  # type: ignore[no-untyped-call]


def rounded(array: Array, dtype: str) -> Array:
    """Return numbers as they are after a conversion to a dtype, in float64; too large ones are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype).astype(np.float64)


def is_coarser(dtype: str, other: str) -> bool:
    """Whether a dtype holds numbers less exactly than another."""
    return relative_error(dtype) > relative_error(other)
