"""Small integers, for which ONNX's operator or ONNX Runtime's kernel has no form, compute in wider ones.

What is cut off when they are cast back is what wraps around in the small ones.
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
"""Ops without a form for some integers of one byte, too."""

WITHOUT_MOST = frozenset({
    "argmax", "argmin", "clamp", "cummax", "cummin", "floor_divide", "fmod", "maximum", "minimum", "pad", "reduce_max",
    "reduce_min", "relu", "remainder", "sort", "topk", "where",
})  # fmt: skip
"""Ops that compare, move or divide elements, without a form for integers of two bytes or for unsigned ones of four."""


def wider(node: Node) -> dict[DType, DType]:
    """The dtypes in place of which others must be computed in, with those others."""
    if node.op in WITHOUT_ANY:
        return _ALL
    return _OF_MORE_BYTES if node.op in WITHOUT_MOST else {}
