"""The safetensors files of a recording: mapped into memory, and checked."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import safetensors

from ....recorder import CODES, FORMAT
from ....runtime.errors import UsageError
from ....runtime.ir.types import as_dtype
from ....runtime.visible import visible_name
from ...sides.records import Array
from .index import TensorEntry

RELEASE = 2**28
"""Bytes of mapped files that are read before their memory is given back."""


class MappedArrays(dict[Any, Any]):
    """Arrays that are views of files, by key; memory is given back as they are looked at, one after the other."""

    def __init__(self, shards: Sequence[Shards], arrays: Mapping[Any, Any] = MappingProxyType({})) -> None:
        super().__init__(arrays)
        self.shards = shards
        self._seen = 0

    def items(self) -> Any:
        """Yield keys and arrays."""
        for key, array in super().items():
            self._count(array)
            yield key, array

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an array."""
        array = super().get(key, default)
        self._count(array)
        return array

    def __getitem__(self, key: Any) -> Any:
        array = super().__getitem__(key)
        self._count(array)
        return array

    def _count(self, array: Any) -> None:
        self._seen += 0 if array is None else array.nbytes
        if self._seen > RELEASE:
            self._seen = 0
            for shards in self.shards:
                shards.release()


def part_of(whole: dict[Any, Any], arrays: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return some of the arrays of a dict, which gives memory back if that one does."""
    return MappedArrays(whole.shards, arrays) if isinstance(whole, MappedArrays) else dict(arrays)


def require_regular_files(folder: Path) -> None:
    """Raise `UsageError` for a file of a folder whose opening could wait forever: a pipe, a device, a socket."""
    for path in (*folder.iterdir(), *folder.glob("*/*.npy")):
        if path.suffix in (".json", ".safetensors", ".npy", ".cell") and path.exists() and not path.is_file():
            raise UsageError(f"{path} isn't a regular file")


@dataclass
class Shards:
    """The files of one folder. Their arrays are read-only views of the files, which memory needn't hold."""

    folder: Path
    _maps: dict[str, tuple[mmap.mmap, dict[str, Any], int]] = field(default_factory=dict)
    _arrays: dict[tuple[str, str], Array] = field(default_factory=dict)
    _read_bytes: int = 0

    def array(self, entry: TensorEntry) -> Array:
        """Return a tensor of a file; the same array for the same tensor.

        Raises:
            UsageError: the file is missing, truncated or damaged, or holds something else there.
        """
        place = entry.file, entry.key
        if place not in self._arrays:
            self._arrays[place] = self._read(entry)
        array = self._arrays[place]
        if array.shape != entry.shape or array.dtype != as_dtype(entry.dtype):
            raise UsageError(
                f"{self.folder / entry.file}: {visible_name(entry.key)} is {array.dtype.name} {list(array.shape)}, "
                f"the index says {entry.dtype} {list(entry.shape)}"
            )
        return array

    def _read(self, entry: TensorEntry) -> Array:
        path = self.folder / entry.file
        mapped, header, start = self._map(entry.file)
        stored = header.get(entry.key)
        if not isinstance(stored, dict) or entry.key == "__metadata__":
            raise UsageError(f"{path} has no tensor {visible_name(entry.key)}, which the index names")
        names = {code: name for name, code in CODES.items()}
        if stored["dtype"] not in names:
            raise UsageError(
                f"{path}: {visible_name(entry.key)} has the dtype {stored['dtype']}, which isn't supported"
            )
        dtype, shape = as_dtype(names[stored["dtype"]]), tuple(stored["shape"])
        begin, end = stored["data_offsets"]
        data = memoryview(mapped)[start + begin : start + end]
        if entry.sha256 and hashlib.sha256(data).hexdigest() != entry.sha256:
            raise UsageError(
                f"{path} is damaged: the checksum of {_what(entry)} is wrong\n  what to do: record it again"
            )
        self._read_bytes += len(data)
        if self._read_bytes > RELEASE:
            self.release()
        return np.frombuffer(data, dtype, math.prod(shape)).reshape(shape)

    def _map(self, name: str) -> tuple[mmap.mmap, dict[str, Any], int]:
        if name not in self._maps:
            path = self.folder / name
            try:
                with safetensors.safe_open(str(path), "np"):  # checks the header against the size of the file
                    pass
                with path.open("rb") as file:
                    size = int.from_bytes(file.read(8), "little")
                    header = json.loads(file.read(size))
                    self._maps[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), header, 8 + size
            except FileNotFoundError as error:
                raise UsageError(f"{self.folder} lacks the file {name}, which its index names") from error
            except OSError as error:
                raise UsageError(f"can't read {path}: {error.strerror or error}") from error
            except (safetensors.SafetensorError, ValueError) as error:
                raise UsageError(f"{path} is truncated or damaged: {error}") from error
        return self._maps[name]

    def parts(self) -> list[dict[str, Any]]:
        """Return what the files themselves say of their tensors, in the order of their names."""
        parts = []
        for path in sorted(self.folder.glob("tensors-*.safetensors")):
            metadata = self._map(path.name)[1].get("__metadata__", {})
            try:
                part = json.loads(metadata.get(FORMAT, "{}"))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path}: its header isn't JSON: {error}") from error
            lists = part.values() if isinstance(part, dict) else [None]
            if not all(isinstance(entries, list) for entries in lists):
                raise UsageError(f"{path}: its header isn't a table of tensors")
            parts.append(part)
        return parts

    def release(self) -> None:
        """Let the system take back the memory of what was read, which it reads again when it is needed."""
        self._read_bytes = 0
        for mapped, _, _ in self._maps.values():
            if hasattr(mapped, "madvise"):
                mapped.madvise(mmap.MADV_DONTNEED)


def _what(entry: TensorEntry) -> str:
    of = f" of {visible_name(entry.cell) or '(root)'}" if entry.role.split("_")[0] in ("input", "output") else ""
    return f"{entry.role.replace('_', ' ')} {visible_name(entry.slot)}{of}"
