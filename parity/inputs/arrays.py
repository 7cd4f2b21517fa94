"""Files of input arrays (.npz), whose headers are checked before the data is read."""

from __future__ import annotations

import contextlib
import io
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from ...runtime.errors import UsageError
from ...runtime.ir.types import Value
from ...runtime.memory import check_memory

Array = np.ndarray[Any, Any]

MAX_HEADER_BYTES = 2**16  # bytes before the data of an array

_UNREADABLE = (
    EOFError, KeyError, NotImplementedError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def array_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of an .npz file by name.

    Raises:
        UsageError: the file can't be read.
    """
    with _open_archive(path) as archive:
        shapes = {}
        for name in archive.namelist():
            with archive.open(name) as file:
                shapes[name.removesuffix(".npy")] = tuple(_read_header(file)[0])
        return shapes


@contextlib.contextmanager
def _open_archive(path: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except IsADirectoryError as error:
        raise UsageError(f"needed an .npz file of arrays, given the folder {path}") from error
    except _UNREADABLE as error:
        raise UsageError(f"{path} is not an .npz file of arrays: {error}") from error


def read_all(path: str) -> dict[str, Array]:
    """Read all arrays of an .npz file by name.

    Raises:
        UsageError: the file can't be read.
        ShapeError: memory can't hold one of them.
    """
    with _open_archive(path) as archive:
        return {name.removesuffix(".npy"): _read_data(archive, name) for name in archive.namelist()}


def read_arrays(path: str, inputs: Sequence[Value]) -> list[Array]:
    """Read the arrays of an .npz file that have the names and types of `inputs`, in their order.

    Raises:
        UsageError: the file can't be read, or holds other arrays or types.
        ShapeError: memory can't hold one of them.
    """
    needed = [value.name for value in inputs]
    with _open_archive(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if sorted(names) != sorted(needed):
            raise UsageError(f"the model takes {', '.join(needed)}; {path} holds {', '.join(names) or 'nothing'}")
        return [_read_array(archive, path, value) for value in inputs]


def _read_array(archive: zipfile.ZipFile, path: str, value: Value) -> Array:
    name = f"{value.name}.npy"
    with archive.open(name) as file:
        shape, dtype = _read_header(file)
    if dtype != value.dtype and not (value.dtype == object and dtype.kind == "U"):
        needed = "text (NumPy's str)" if value.dtype == object else value.dtype
        raise UsageError(f"{path}: {value.name} must be {needed}, given {dtype}")
    sizes = value.type.sizes
    if len(shape) != value.type.rank or (sizes is not None and shape != sizes):
        raise UsageError(f"{path}: {value.name} must be {value.type}, given {dtype}{list(shape)}")
    return _read_data(archive, name)


def _read_data(archive: zipfile.ZipFile, name: str) -> Array:
    """Read an .npy file, unless memory can't hold it."""
    with archive.open(name) as file:
        check_memory(*_read_header(file))
    with archive.open(name) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read shape and dtype from the header of an .npy file."""
    file = io.BytesIO(file.read(MAX_HEADER_BYTES))
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype
