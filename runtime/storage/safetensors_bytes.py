"""Conversion of arrays to and from safetensors bytes; safetensors' own NumPy reader lacks bfloat16."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ..ir.types import as_dtype

Array = np.ndarray[Any, Any]

_DTYPES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip


def to_bytes(arrays: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the named arrays and the metadata in the format of a `.safetensors` file."""
    return safetensors.numpy.save({name: np.asarray(a, order="C") for name, a in arrays.items()}, metadata)


def from_bytes(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays by name, in the order of the file, and the metadata; `ValueError` if the bytes are invalid."""
    try:
        arrays = {
            name: np.frombuffer(item["data"], as_dtype(_DTYPES[item["dtype"]])).reshape(item["shape"])
            for name, item in safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        }
    except safetensors.SafetensorError as error:
        raise ValueError(f"not safetensors, or damaged: {error}") from error
    except KeyError as error:
        raise ValueError(f"the dtype {error} has no counterpart in NumPy") from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return arrays, header.get("__metadata__", {})
