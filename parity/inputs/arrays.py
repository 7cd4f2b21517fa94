"""Files of input arrays (.npz): what they declare is checked before it is read."""

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
    """What shapes the arrays of an .npz file have, by name.

    Raises:
        UsageError: the file can't be read.
    """
    with _opened(path) as archive:
        found = {}
        for name in archive.namelist():
            with archive.open(name) as file:
                found[name.removesuffix(".npy")] = tuple(_declared(file)[0])
        return found


@contextlib.contextmanager
def _opened(path: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}") from error
    except _UNREADABLE as error:
        raise UsageError(f"{path} is not an .npz file of arrays: {error}") from error


def read_arrays(path: str, inputs: Sequence[Value]) -> list[Array]:
    """The arrays of an .npz file that have the names and types of `inputs`, in their order.

    Raises:
        UsageError: the file can't be read, holds other arrays, or one that is no array of numbers.
        ShapeError: memory can't hold one of them.
    """
    needed = [value.name for value in inputs]
    with _opened(path) as archive:
        held = [name.removesuffix(".npy") for name in archive.namelist()]
        if sorted(held) != sorted(needed):
            raise UsageError(f"the model takes {', '.join(needed)}; {path} holds {', '.join(held) or 'nothing'}")
        return [_read(archive, path, value) for value in inputs]


def _read(archive: zipfile.ZipFile, path: str, value: Value) -> Array:
    name = f"{value.name}.npy"
    with archive.open(name) as file:
        shape, dtype = _declared(file)
    if dtype != value.dtype and not (value.dtype == object and dtype.kind == "U"):
        needed = "text (NumPy's str)" if value.dtype == object else value.dtype
        raise UsageError(f"{path}: {value.name} must be {needed}, given {dtype}")
    sizes = value.type.sizes
    if len(shape) != value.type.rank or (sizes is not None and shape != sizes):
        raise UsageError(f"{path}: {value.name} must be {value.type}, given {dtype}{list(shape)}")
    check_memory(shape, dtype)
    with archive.open(name) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _declared(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype that an .npy file begins with, in a header that states its own length."""
    file = io.BytesIO(file.read(MAX_HEADER_BYTES))
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype
