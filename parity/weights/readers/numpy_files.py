"""NumPy's files (format of NumPy 2.4): `.npz` archives, and folders of `.npy` files. Nothing is unpickled."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from ....runtime.errors import ShapeError, UsageError
from ....runtime.memory import check_memory
from ....runtime.visible import visible_name
from ..arrangements import Array
from .file_bytes import require_content, tensor_in_file
from .tensor import StoredCheckpoint, StoredTensor

SUFFIX = ".npy"
_KINDS = "biuf"
_DAMAGED = (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, ShapeError)


def read_npz(path: str) -> StoredCheckpoint:
    """Read the headers of an archive's members.

    Raises:
        UsageError: the file is damaged, or holds something else than arrays of numbers.
    """
    tensors: dict[str, StoredTensor] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(SUFFIX)
                with archive.open(member) as file:
                    shape, _, dtype = _header(file, visible_name(name))
                _require_fits(shape, dtype, member.file_size)
                if name in tensors:
                    raise ValueError(f"it has {visible_name(name)} twice")
                tensors[name] = StoredTensor(name, shape, dtype.name, _Member(path, member.filename, shape))
    except _DAMAGED as error:
        raise UsageError(f"can't read {path}: not an .npz file, or damaged: {error}") from error
    if not tensors:
        raise UsageError(f"{path} holds no parameters")
    return StoredCheckpoint(path, ".npz", tensors)


def read_npy_folder(path: str) -> StoredCheckpoint:
    """Read the headers of a folder's `.npy` files; a file's path within the folder, with dots, is its tensor's name.

    Raises:
        UsageError: a file is damaged, or holds something else than numbers.
    """
    tensors: dict[str, StoredTensor] = {}
    folder = Path(path)
    for file in sorted(folder.rglob(f"*{SUFFIX}")):
        if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"can't read {file}: it is no file in {path}")
        name = ".".join(file.relative_to(folder).with_suffix("").parts)
        if name in tensors:
            raise UsageError(f"{path} holds {visible_name(name)} in two files: {file} is the second")
        require_content(file)
        try:
            with file.open("rb") as opened:
                shape, is_fortran, dtype = _header(opened, visible_name(name))
                offset = opened.tell()
            _require_fits(shape, dtype, file.stat().st_size)
        except _DAMAGED as error:
            raise UsageError(f"can't read {file}: not an .npy file, or damaged: {error}") from error
        tensor = tensor_in_file(name, shape[::-1] if is_fortran else shape, dtype, file, offset)
        tensors[name] = _transposed(tensor) if is_fortran else tensor
    if not tensors:
        raise UsageError(f"{path} holds no {SUFFIX} file, nor safetensors or a pytorch_model.bin")
    return StoredCheckpoint(path, f"a folder of {len(tensors)} {SUFFIX} files", tensors)


class _Member:
    """Reads the rows of a member; the last one that was read is kept."""

    _kept: tuple[str, str, Array] | None = None

    def __init__(self, path: str, member: str, shape: tuple[int, ...]) -> None:
        self.path, self.member, self.shape = path, member, shape

    def __call__(self, start: int, stop: int) -> Array:
        kept = _Member._kept
        if kept is None or kept[:2] != (self.path, self.member):
            try:
                with zipfile.ZipFile(self.path) as archive:
                    array = np.load(io.BytesIO(archive.read(self.member)), allow_pickle=False)
            except _DAMAGED as error:
                raise UsageError(f"can't read {self.path}: {visible_name(self.member)} is damaged: {error}") from error
            _Member._kept = kept = self.path, self.member, array
        array = kept[2]
        return np.asarray(array.reshape(1) if array.ndim == 0 else array)[start:stop]


def _transposed(tensor: StoredTensor) -> StoredTensor:
    """Return a tensor whose elements lie with the first axis first; it is read as a whole."""

    def rows(start: int, stop: int) -> Array:
        return np.asarray(tensor.read().T[start:stop])

    return StoredTensor(tensor.name, tensor.shape[::-1], tensor.dtype, rows)


def _header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.kind not in _KINDS or dtype.names or dtype.hasobject:
        what = "NumPy's files don't say how it is read: save it as float32" if dtype.kind == "V" else "needed numbers"
        raise ValueError(f"{name} has the dtype {dtype}, {what}")
    if any(type(size) is not int for size in shape):
        raise ValueError(f"{name} has the shape {shape}, needed whole numbers")
    return shape, is_fortran, dtype


def _require_fits(shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
    """Raise `ValueError` unless so many bytes can hold an array."""
    needed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if needed > size:
        raise ValueError(f"{list(shape)} of {dtype} takes {needed} bytes, and there are {size}")
    check_memory(shape, dtype)
