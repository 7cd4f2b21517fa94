"""Computing in wider integers where ONNX's operator or ONNX Runtime's kernel doesn't support small ones.

The cast back truncates the result, which is equivalent to the wrap-around of the small integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import INT32, INT64, Node

DType = np.dtype[Any]

_OF_MORE_BYTES: dict[DType, DType] = {
    np.dtype(np.int16): INT32,
    np.dtype(np.uint16): INT32,
    np.dtype(np.uint32): INT64,
}
_ALL: dict[DType, DType] = {np.dtype(np.int8): INT32, np.dtype(np.uint8): INT32, **_OF_MORE_BYTES}

WITHOUT_ANY = frozenset({"cumsum", "matmul", "neg", "triangle"})
"""Ops without support for some integers of one byte."""

WITHOUT_MOST = frozenset({
    "argmax", "argmin", "clamp", "cummax", "cummin", "floor_divide", "fmod", "maximum", "minimum", "pad", "reduce_max",
    "reduce_min", "relu", "remainder", "sort", "topk", "where",
})  # fmt: skip
"""Ops that compare, move or divide elements, without support for integers of two bytes or unsigned ones of four."""


def wider_dtypes(node: Node) -> dict[DType, DType]:
    """Return the integer dtypes that a node doesn't support, each with the wider dtype to compute in."""
    if node.op in WITHOUT_ANY:
        return _ALL
    return _OF_MORE_BYTES if node.op in WITHOUT_MOST else {}
