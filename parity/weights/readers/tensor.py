"""`StoredTensor` and `StoredCheckpoint`: what a reader returns, before any value is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrangements import Array

CHUNK = 64 << 20
"""Bytes of values in float32 that are read at a time."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a checkpoint.

    Attributes:
        name: its name.
        shape: its shape as people know it, where a format packs several values into an element, or pads them.
        dtype: how the file holds its values: a dtype of NumPy or `ml_dtypes`, such as "bfloat16", or a block format,
            such as "Q4_K" or "GPTQ 4-bit".
        read_rows: returns the values of the rows from `start` to `stop` along the first axis, shaped (stop - start,
            *shape[1:]), in that dtype, or in float32 for a block format; raises `UsageError` if the file is damaged. A
            tensor without axes is one row.
        storage: equal for tensors that are one in the file, as tied ones are; None if each is by itself.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read_rows: Callable[[int, int], Array]
    storage: object = None

    @property
    def row_count(self) -> int:
        """The number of rows along the first axis."""
        return self.shape[0] if self.shape else 1

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def element_size(self) -> int:
        """The bytes of an element as it is read."""
        try:
            return np.dtype(self.dtype).itemsize
        except TypeError:
            return 4  # a block format is read as float32

    def read(self) -> Array:
        """Return all values."""
        return self.read_rows(0, self.row_count).reshape(self.shape)

    def chunks(self, most_bytes: int = CHUNK) -> Iterator[tuple[int, Array]]:
        """Yield the first row and the values of successive rows, each so few that they fit into `most_bytes`."""
        per_row = max(1, 4 * self.size // max(1, self.row_count))
        step = max(1, most_bytes // per_row)
        for start in range(0, self.row_count, step):
            yield start, self.read_rows(start, min(start + step, self.row_count))


@dataclass(frozen=True)
class StoredCheckpoint:
    """The tensors of a checkpoint by name, in the order of the file.

    Attributes:
        path: the file or folder.
        format: what it is, in words, such as "safetensors" or "GGUF, version 3".
        tensors: the tensors.
        skipped: descriptions of entries that aren't tensors.
        metadata: what the file says of itself, as texts; a reader of it must not trust it.
        notes: remarks for the reader of a report.
    """

    path: str
    format: str
    tensors: Mapping[str, StoredTensor]
    skipped: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def stored_array(name: str, array: Array, storage: object = None) -> StoredTensor:
    """Return a tensor whose values are in memory, or mapped into it."""
    rows = array.reshape(1) if array.ndim == 0 else array
    return StoredTensor(name, array.shape, array.dtype.name, lambda start, stop: rows[start:stop], storage)


def slice_of(source: StoredTensor, axis: int, number: int) -> StoredTensor:
    """Return a slice of a tensor along an axis."""
    array = source.read_rows(number, number + 1)[0] if axis == 0 else source.read().take(number, axis)
    rows = array.reshape(1) if array.ndim == 0 else array
    return StoredTensor(source.name, array.shape, source.dtype, lambda start, stop: rows[start:stop])
