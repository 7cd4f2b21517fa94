"""Reads MindSpore's own checkpoints, protobuf messages of its `checkpoint.proto`, without a protobuf library.

    message Checkpoint { repeated Value value = 1; }
    message Value { required string tag = 1; optional TensorProto tensor = 2; }
    message TensorProto { repeated int64 dims = 1; required string tensor_type = 2; required bytes tensor_content = 3; }

A large Parameter is split into several successive values with one tag. After the messages there may be `crc_num` and a
checksum of ten bytes.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ir.types import as_dtype

Array = np.ndarray[Any, Any]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CRC = b"crc_num"
_DTYPES = {
    "Int8": "int8", "UInt8": "uint8", "Int16": "int16", "UInt16": "uint16", "Int32": "int32", "UInt32": "uint32",
    "Int64": "int64", "UInt64": "uint64", "Float16": "float16", "Float32": "float32", "Float64": "float64",
    "Bool": "bool", "BFloat16": "bfloat16",
}  # fmt: skip
_FIRST = 1 << 3 | _BYTES  # the first byte of a file: field 1, a message


def looks_like_protobuf(data: bytes) -> bool:
    """Whether bytes may be such a checkpoint; safetensors files have the `{` of their header in the ninth byte."""
    return data[:1] == bytes([_FIRST]) and data[8:9] != b"{"


def read_protobuf(data: bytes) -> dict[str, Array | str]:
    """Return arrays and strings by name, in the order of the file.

    Raises:
        ValueError: the bytes are damaged, or in another format.
    """
    messages = memoryview(data)
    if data[-len(_CRC) - 10 : -10] == _CRC:
        messages = messages[: -len(_CRC) - 10]
        if binascii.crc32(messages) != int.from_bytes(data[-10:], "big"):
            raise ValueError("its checksum doesn't match its content")
    parts: dict[str, tuple[tuple[int, ...], str, list[memoryview]]] = {}
    for number, value in _fields(messages):
        if number != 1 or not isinstance(value, memoryview):
            raise ValueError(f"a field {number} that no checkpoint of MindSpore has")
        tag, dims, kind, content = _value(value)
        part = parts.setdefault(tag, (dims, kind, []))
        if part[:2] != (dims, kind):
            raise ValueError(f"two parts of {tag!r} that don't fit together")
        part[2].append(content)
    return {tag: _decode(tag, dims, kind, b"".join(content)) for tag, (dims, kind, content) in parts.items()}


def _value(message: memoryview) -> tuple[str, tuple[int, ...], str, memoryview]:
    """Return name, sizes, dtype and bytes of a `Value`."""
    fields = dict(_fields(message))
    if not isinstance(fields.get(1), memoryview) or not isinstance(fields.get(2), memoryview):
        raise ValueError("a value without a name or a tensor (a map of embeddings isn't read)")
    dims: list[int] = []
    kind, content = "", memoryview(b"")
    for number, value in _fields(fields[2]):
        if number == 1:
            dims += [value] if isinstance(value, int) else _unpack_varints(value)
        elif number == 2 and isinstance(value, memoryview):
            kind = _text(value)
        elif number == 3 and isinstance(value, memoryview):
            content = value
    return _text(fields[1]), tuple(dims), kind, content


def _decode(tag: str, dims: tuple[int, ...], kind: str, content: bytes) -> Array | str:
    if kind == "str":
        return content.decode("utf-32-le").rstrip("\0")
    if kind not in _DTYPES:
        raise ValueError(f"{tag!r} is of the dtype {kind!r}, which isn't read; needed one of {sorted(_DTYPES)}")
    dtype = as_dtype(_DTYPES[kind])
    if dims == (0,) and len(content) == dtype.itemsize:  # the encoding of a tensor without dimensions
        dims = ()
    if any(size >= 2**63 for size in dims) or math.prod(dims) * dtype.itemsize != len(content):
        raise ValueError(f"{tag!r} has {len(content)} bytes, needed those of {kind} {list(dims)}")
    return np.frombuffer(content, dtype).reshape(dims)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: number, and an int or the bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field of wire type {kind}")
        if size > len(message) - at:
            raise ValueError("it ends within a field")
        yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    value = 0
    for count, byte in enumerate(message[at : at + 10]):
        value |= (byte & 127) << 7 * count
        if byte < 128:
            return value, at + count + 1
    raise ValueError("it ends within a number")


def _unpack_varints(message: memoryview) -> list[int]:
    result: list[int] = []
    at = 0
    while at < len(message):
        value, at = _varint(message, at)
        result.append(value)
    return result


def _text(value: memoryview) -> str:
    return bytes(value).decode("utf-8")  # UnicodeDecodeError is a ValueError
