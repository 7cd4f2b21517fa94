"""The bytes of a checkpoint: safetensors, whose metadata keeps the order of the names, and what is a string."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..storage.safetensors_bytes import from_bytes, to_bytes
from .protobuf_checkpoint import looks_like_protobuf, read_protobuf

Array = np.ndarray[Any, Any]

_CONTENT = "content"  # a key of the metadata: names in order, each with its value if that is a string


def encode(items: Mapping[str, Array | str], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes for arrays and strings by name; further `metadata` is kept along."""
    arrays = {name: value for name, value in items.items() if not isinstance(value, str)}
    content = [[name] if name in arrays else [name, value] for name, value in items.items()]
    return to_bytes(arrays, {**(metadata or {}), _CONTENT: json.dumps(content)})


def decode(data: bytes) -> tuple[dict[str, Array | str], dict[str, str]]:
    """Arrays and strings by name, in the order in which they were saved, and the further metadata.

    Files of others (safetensors without that order, MindSpore's protobuf messages) are read too.

    Raises:
        ValueError: the bytes are damaged, or something else.
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
