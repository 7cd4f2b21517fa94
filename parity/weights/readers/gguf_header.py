"""The header of a GGUF file: what it says of the model, and where its tensors lie.

Written from the format's description (docs/gguf.md of ggml) and compared with llama.cpp's gguf-py 0.19.0, whose reader
makes a Python object of each element of an array, and doesn't end on an array that claims to be longer than the file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....runtime.errors import UsageError

VERSIONS = (2, 3)
ALIGNMENT = 32
"""Of tensors in the file, unless `general.alignment` says otherwise."""
LONGEST_NAME = (1 << 16) - 1
LONGEST_TEXT = 1 << 16
"""Bytes of a text that are kept: a chat template fits."""
LONGEST_ARRAY = 1 << 10
"""Numbers of an array that are kept: a number for each layer fits, a score for each token doesn't."""
MOST_TEXTS = 1 << 24
"""Texts in arrays: fifty times as many as the tokens and merges of the largest tokenizers."""

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_TEXT, _ARRAY = 8, 9


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the header lists it.

    Attributes:
        name: its name.
        shape: its shape in torch's order, which is the reverse of the header's.
        type: the number of its type, of ggml.
        start: the first byte of its values, counted from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    start: int


@dataclass(frozen=True)
class Header:
    """What is before the values.

    Attributes:
        version: the version of GGUF.
        metadata: texts and numbers by key; a short array of numbers is a tuple, and of any other array there is only
            the number of its elements, under `<key>.length`.
        tensors: the tensors, in the order of the header.
    """

    version: int
    metadata: dict[str, Any]
    tensors: tuple[TensorInfo, ...]


def read_header(buffer: Any, path: str) -> Header:
    """Read the header of the file whose bytes are in `buffer`, as mapped; raise `UsageError` if it is damaged."""
    cursor = _Cursor(memoryview(buffer).cast("B"), path)
    if bytes(cursor.take(4)) != b"GGUF":
        raise cursor.error("it isn't a GGUF file")
    version = cursor.number("<I")
    if version not in VERSIONS:
        swapped = int.from_bytes(struct.pack("<I", version), "big")
        what = "its bytes are in big-endian order" if swapped in VERSIONS else f"it has version {version} of GGUF"
        raise cursor.error(f"{what}, which isn't read; llama.cpp's scripts convert it")
    tensor_count, entry_count = cursor.number("<Q"), cursor.number("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(entry_count):
        key = cursor.name()
        values = dict(_values(cursor, key))
        if values.keys() & metadata.keys():
            raise cursor.error(f"its header has the key {key!r} twice")
        metadata.update(values)
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.error(f"general.alignment is {alignment!r} and not a power of two")
    listed = [_tensor(cursor) for _ in range(tensor_count)]
    first = -(-cursor.position // alignment) * alignment
    tensors = tuple(TensorInfo(info.name, info.shape, info.type, first + info.start) for info in listed)
    if len({info.name for info in tensors}) < len(tensors):
        raise cursor.error("its header has two tensors of the same name")
    for info in tensors:
        if (info.start - first) % alignment:
            raise cursor.error(f"{info.name} doesn't begin at a multiple of {alignment} bytes")
    return Header(version, metadata, tensors)


class _Cursor:
    """Reads values one after another, and doesn't read beyond the end."""

    def __init__(self, view: memoryview, path: str) -> None:
        self.view = view
        self.path = path
        self.position = 0
        self.texts_left = MOST_TEXTS

    def error(self, problem: str) -> UsageError:
        return UsageError(f"can't read {self.path}: {problem}")

    def take(self, size: int) -> memoryview:
        if size > len(self.view) - self.position:
            raise self.error("the file ends within its header: it is damaged, or wasn't copied whole")
        self.position += size
        return self.view[self.position - size : self.position]

    def number(self, format_: str) -> Any:
        return struct.unpack(format_, self.take(struct.calcsize(format_)))[0]

    def name(self) -> str:
        length = self.number("<Q")
        if length > LONGEST_NAME:
            raise self.error(f"its header has a name of {length} bytes")
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise self.error("its header has a name that isn't in UTF-8") from error


def _values(cursor: _Cursor, key: str) -> Iterator[tuple[str, Any]]:
    """Yield what is kept of an entry's value, and move behind it."""
    kind = cursor.number("<I")
    if kind in _SCALARS:
        yield key, cursor.number(_SCALARS[kind])
    elif kind == _TEXT:
        yield key, _text(cursor)
    elif kind == _ARRAY:
        yield from _array(cursor, key)
    else:
        raise cursor.error(f"its header has a value of the unknown type {kind} ({key})")


def _text(cursor: _Cursor) -> str:
    data = cursor.take(cursor.number("<Q"))
    text = str(data[:LONGEST_TEXT], "utf-8", "replace")
    return text if len(data) <= LONGEST_TEXT else f"{text}..."


def _array(cursor: _Cursor, key: str) -> Iterator[tuple[str, Any]]:
    kind, length = cursor.number("<I"), cursor.number("<Q")
    if kind == _TEXT:
        cursor.texts_left -= length
        if cursor.texts_left < 0:
            raise cursor.error(f"its header claims {length} texts in {key}")
        for _ in range(length):
            cursor.take(cursor.number("<Q"))
    elif kind in _SCALARS:
        format_ = _SCALARS[kind]
        data = cursor.take(length * struct.calcsize(format_))
        if length <= LONGEST_ARRAY:
            yield key, tuple(value for (value,) in struct.iter_unpack(format_, data))
            return
    else:
        raise cursor.error(f"its header has an array of the unknown type {kind} ({key})")
    yield f"{key}.length", length


def _tensor(cursor: _Cursor) -> TensorInfo:
    """Read the entry of a tensor; `start` is counted from the first tensor."""
    name, axes = cursor.name(), cursor.number("<I")
    if axes > 8:
        raise cursor.error(f"its header gives {name} {axes} axes")
    shape = tuple(cursor.number("<Q") for _ in range(axes))[::-1]
    if not math.prod(shape):
        raise cursor.error(f"its header gives {name} the shape {shape}")
    return TensorInfo(name, shape, cursor.number("<I"), cursor.number("<Q"))
