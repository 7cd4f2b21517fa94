"""Writes a safetensors file tensor by tensor, so that only one is in memory (format of safetensors 0.6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..support.files import atomic_path
from .arrangements import Array
from .readers.safetensors_files import DTYPES

_DTYPE_IN_FILE = {name: code for code, name in DTYPES.items()}
_ROOM = 256
"""Bytes of a tensor's entry in the header beside its name: dtype, up to eight axes, and offsets."""


def write_tensors(path: str, names: Iterable[str], make: Callable[[str], Array]) -> dict[str, tuple[int, ...]]:
    """Write a file, completely or not at all, and return the shapes by name.

    The header comes first in the file, and is known last: room is left for it, and what isn't used is filled with
    spaces, as the format allows.

    Args:
        path: the file.
        names: the names, in the order in which the tensors are written. Readers that map the file into memory want
            those with large elements first.
        make: returns the values of a tensor.

    Raises:
        UsageError: the file can't be written, or a dtype has no name in the format.
    """
    names = list(names)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    room = sum(len(json.dumps(name)) + _ROOM for name in names) + _ROOM
    room += -room % 8
    shapes: dict[str, tuple[int, ...]] = {}
    with atomic_path(path) as inside:
        try:
            _write(inside, names, make, header, room, shapes)
        except OSError as error:
            raise UsageError(f"can't write {path}: {error.strerror or error}") from error
    return shapes


def _write(
    path: Path,
    names: list[str],
    make: Callable[[str], Array],
    header: dict[str, Any],
    room: int,
    shapes: dict[str, tuple[int, ...]],
) -> None:
    with path.open("wb") as file:
        file.write(b" " * (8 + room))
        offset = 0
        for name in names:
            array = np.asarray(make(name), order="C")
            if array.dtype.name not in _DTYPE_IN_FILE:
                raise UsageError(f"{visible_name(name)} has the dtype {array.dtype}, which safetensors doesn't have")
            file.write(array.reshape(-1).view(np.uint8).data)
            shapes[name] = array.shape
            header[name] = {
                "dtype": _DTYPE_IN_FILE[array.dtype.name],
                "shape": list(array.shape),
                "data_offsets": [offset, offset + array.nbytes],
            }
            offset += array.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        file.seek(0)
        file.write(room.to_bytes(8, "little") + text.ljust(room))
