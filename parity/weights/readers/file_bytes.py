"""Tensors that lie in a file as they do in memory. They are read, since cutting off a mapped file ends a process."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from ....runtime.errors import UsageError
from ....runtime.visible import visible_name
from ..arrangements import Array
from .tensor import StoredTensor


def require_content(path: Path) -> bytes:
    """Return the first bytes of a file; raise `UsageError` if it is no regular file, empty or a pointer of Git LFS."""
    if not path.is_file():
        raise UsageError(f"can't read {path}: it isn't a regular file")
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    if not start:
        raise UsageError(f"can't read {path}: the file is empty")
    if start.startswith(b"version https://git-lfs"):
        raise UsageError(f"can't read {path}: it is a pointer of Git LFS: fetch the file itself with `git lfs pull`")
    return start


def tensor_in_file(
    name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], path: Path, offset: int
) -> StoredTensor:
    """Return a tensor whose elements lie one after the other, the last axis first.

    Args:
        name: its name.
        shape: its shape.
        dtype: their dtype.
        path: the file.
        offset: where the first begins, in bytes.
    """
    return StoredTensor(name, shape, dtype.name, partial(_rows, name, shape, dtype, path, offset))


def _rows(
    name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], path: Path, offset: int, start: int, stop: int
) -> Array:
    inner = shape[1:]
    size = int(np.prod(inner, dtype=np.int64)) * dtype.itemsize
    wanted = (stop - start) * size
    data = bytearray(wanted)
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset + start * size)
            view = memoryview(data)
            while view and (count := os.readv(file.fileno(), [view])):
                view = view[count:]
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    if view:
        raise UsageError(f"can't read {path}: it was cut off within {visible_name(name)}, while it was read")
    return np.frombuffer(data, dtype).reshape(stop - start, *inner)
