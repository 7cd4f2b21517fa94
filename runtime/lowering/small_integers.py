"""Computing in wider integers where ONNX's operator or ONNX Runtime's kernel doesn't support small ones.

The cast back truncates the result, which is equivalent to the wrap-around of the small integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import INT32, INT64, Node
from ..ops.registry import get

DType = np.dtype[Any]

_OF_MORE_BYTES: dict[DType, DType] = {
    np.dtype(np.int16): INT32,
    np.dtype(np.uint16): INT32,
    np.dtype(np.uint32): INT64,
}
_ALL: dict[DType, DType] = {np.dtype(np.int8): INT32, np.dtype(np.uint8): INT32, **_OF_MORE_BYTES}
_WIDER: dict[str, dict[DType, DType]] = {"": {}, "most": _OF_MORE_BYTES, "all": _ALL}


def wider_dtypes(node: Node) -> dict[DType, DType]:
    """Return the integer dtypes that a node doesn't support, each with the wider dtype to compute in."""
    return _WIDER[get(node.op).traits.wider_integers]
