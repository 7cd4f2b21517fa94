"""The data of a program's stored tensors, converted to their values' dtypes when they are used; mapped files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .types import Value

Array = np.ndarray[Any, Any]

LARGE = 2**16  # bytes


class StoredData(Mapping[Value, Array]):
    """The data of values. An array of another dtype than its value's is converted anew at each access."""

    def __init__(self, arrays: Mapping[Value, Any]) -> None:
        self._arrays = {value: np.asarray(data) for value, data in arrays.items()}
        self._other = [value for value, data in self._arrays.items() if data.dtype != value.dtype]

    def arrays(self) -> dict[Value, Array]:
        """Return all data by value."""
        return self._arrays | {value: self[value] for value in self._other}

    def __getitem__(self, value: Value) -> Array:
        return self._arrays[value].astype(value.dtype, copy=False)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def is_read_when_used(self, value: Value) -> bool:
        """Whether the data are in a file and large, so that they are better read when they are needed."""
        data = self._arrays[value]
        return data.nbytes >= LARGE and mapped_file(data) is not None

    def read(self, value: Value) -> Array:
        """Return the data in memory of their own, and give back the memory of the file's pages."""
        data = self._arrays[value]
        result = np.array(data, value.dtype, order="C")
        file = mapped_file(data)
        if file is not None:
            give_pages_back(file)
        return result


def mapped_file(array: Array) -> mmap.mmap | None:
    """Return the file mapped into memory that an array is a view of; None if it isn't one."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None


def give_pages_back(file: mmap.mmap) -> None:
    """Give the memory of a mapped file's pages back, where the system can; what is used again is read again."""
    if hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)
