"""The bytes of a checkpoint: safetensors, with the order of the names and the strings in the metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..storage.safetensors_bytes import from_bytes, to_bytes
from .protobuf_checkpoint import looks_like_protobuf, read_protobuf

Array = np.ndarray[Any, Any]

_CONTENT = "content"  # a key of the metadata: names in order, with the values of strings


def encode(items: Mapping[str, Array | str], metadata: Mapping[str, str] | None = None) -> bytes:
    """Encode arrays and strings by name, with additional `metadata`."""
    arrays = {name: value for name, value in items.items() if not isinstance(value, str)}
    content = [[name] if name in arrays else [name, value] for name, value in items.items()]
    return to_bytes(arrays, {**(metadata or {}), _CONTENT: json.dumps(content)})


def decode(data: bytes) -> tuple[dict[str, Array | str], dict[str, str]]:
    """Decode arrays and strings by name, in the order in which they were saved, and the additional metadata.

    Foreign files (safetensors without that order, MindSpore's protobuf messages) are decoded too.

    Raises:
        ValueError: the bytes are damaged, or in another format.
    """
    if looks_like_protobuf(data):
        return read_protobuf(data), {}
    arrays, metadata = from_bytes(data)
    try:
        content = json.loads(metadata.pop(_CONTENT)) if _CONTENT in metadata else [[name] for name in arrays]
        items = {str(entry[0]): arrays.pop(entry[0]) if len(entry) == 1 else str(entry[1]) for entry in content}
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ValueError(f"its list of names is damaged: {error}") from error
    return items | arrays, metadata
