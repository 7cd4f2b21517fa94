"""Reading GGUF files, those of llama.cpp: values are mapped, and dequantized when they are asked for.

The formats of blocks are those that the `gguf` package (llama.cpp's gguf-py, compared with version 0.19.0) dequantizes;
its reader isn't used, see `gguf_header`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ....runtime.errors import UsageError
from ..arrangements import Array
from .gguf_header import TensorInfo, read_header
from .tensor import StoredCheckpoint, StoredTensor

_PLAIN: dict[str, Any] = {
    "F32": np.float32, "F16": np.float16, "F64": np.float64, "BF16": ml_dtypes.bfloat16,
    "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
}  # fmt: skip


class _Format(NamedTuple):
    """How values are held: `block` of them in `size` bytes; `dequantize` is None for plain numbers of `dtype`."""

    name: str
    block: int
    size: int
    dtype: Any
    dequantize: Callable[[Array], Array] | None


def read_gguf(path: str) -> StoredCheckpoint:
    """Return the tensors of a GGUF file under its own names, and with shapes in torch's order.

    The metadata are texts and numbers by the file's keys, see `gguf_header.Header`.

    Raises:
        UsageError: the file can't be read or is damaged, or the `gguf` package isn't there or too old for it.
    """
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"can't read {path}: the file is empty") from error
    header = read_header(data, path)
    if not header.tensors:
        raise UsageError(f"{path} holds no parameters")
    formats = {info.type: _format(info, path) for info in header.tensors}
    ends = {info.name: _end(info, formats[info.type], len(data), path) for info in header.tensors}
    for before, after in pairwise(sorted(header.tensors, key=lambda info: info.start)):
        if ends[before.name] > after.start:
            raise UsageError(f"can't read {path}: {before.name} and {after.name} overlap in it")
    tensors = {
        info.name: _stored(info, formats[info.type], data[info.start : ends[info.name]]) for info in header.tensors
    }
    parts = header.metadata.get("split.count", 1)
    notes = (f"{path} is one of {parts} files: the others' tensors aren't in it",) if parts != 1 else ()
    return StoredCheckpoint(path, f"GGUF, version {header.version}", tensors, metadata=header.metadata, notes=notes)


def _format(info: TensorInfo, path: str) -> _Format:
    try:
        import gguf
    except ImportError as error:
        raise UsageError("reading a GGUF file needs the package gguf: pip install gguf") from error

    def refusal(kind: object) -> UsageError:
        return UsageError(
            f"can't read {path}: {info.name} has the type {kind}, which the installed gguf package doesn't dequantize"
        )

    try:
        kind = gguf.GGMLQuantizationType(info.type)
        block, size = gguf.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError) as error:
        raise refusal(info.type) from error
    if kind.name in _PLAIN:
        return _Format(kind.name, block, size, np.dtype(_PLAIN[kind.name]), None)
    try:
        gguf.dequantize(np.zeros((1, size), np.uint8), kind)
    except NotImplementedError as error:
        raise refusal(kind.name) from error
    return _Format(kind.name, block, size, np.dtype(np.float32), lambda rows: gguf.dequantize(rows, kind))


def _end(info: TensorInfo, form: _Format, file_size: int, path: str) -> int:
    """Return the byte behind the tensor's last one."""
    columns = info.shape[-1] if info.shape else 1
    if columns % form.block:
        raise UsageError(
            f"can't read {path}: {info.name} has {columns} columns, and {form.name} holds {form.block} in a block"
        )
    end = info.start + math.prod(info.shape) // form.block * form.size
    if end > file_size:
        raise UsageError(
            f"can't read {path}: {info.name} {info.shape} would end at byte {end}, and the file has {file_size}: "
            "it is damaged, or wasn't copied whole"
        )
    return end


def _stored(info: TensorInfo, form: _Format, data: Array) -> StoredTensor:
    dequantize = form.dequantize
    if dequantize is None:
        rows = data.view(form.dtype).reshape(info.shape or (1,))
        return StoredTensor(info.name, info.shape, form.dtype.name, lambda start, stop: rows[start:stop])
    blocks = data.reshape(-1, form.size)
    per_row = math.prod(info.shape[1:])

    def read_rows(start: int, stop: int) -> Array:
        first, last = start * per_row, stop * per_row  # elements: a block has several rows of a tensor with one axis
        begin = first // form.block
        rows = 1 if per_row % form.block else stop - start  # gguf takes 16 rows at a time, which should be long
        with np.errstate(over="ignore", invalid="ignore"):  # scales that aren't finite
            values = dequantize(blocks[begin : -(-last // form.block)].reshape(rows, -1)).reshape(-1)
        offset = begin * form.block
        return values[first - offset : last - offset].reshape(stop - start, *info.shape[1:])

    return StoredTensor(info.name, info.shape, form.name, read_rows)
