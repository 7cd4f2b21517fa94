"""Messages between a process and its child: JSON that describes arrays, followed by their bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")
MAX_TEXT_LENGTH = 2**24  # bytes of JSON


def send(stream: BinaryIO, message: Any, data: Sequence[Any] = ()) -> None:
    """Write a message and contiguous buffers of bytes."""
    sizes = [memoryview(part).nbytes for part in data]
    text = json.dumps({"message": message, "sizes": sizes}).encode()
    stream.write(LENGTH.pack(len(text)))
    stream.write(text)
    for part, size in zip(data, sizes, strict=True):
        if size:
            stream.write(memoryview(part).cast("B"))
    stream.flush()


def receive(stream: BinaryIO) -> tuple[Any, list[bytearray]]:
    """Read a message and its buffers; raise `EOFError` if the stream ends early."""
    (length,) = LENGTH.unpack(_exactly(stream, LENGTH.size))
    if length > MAX_TEXT_LENGTH:
        raise EOFError(f"a message of {length} bytes")
    message = json.loads(_exactly(stream, length))
    return message["message"], [_exactly(stream, size) for size in message["sizes"]]


def _exactly(stream: BinaryIO, size: int) -> bytearray:
    """Read exactly `size` bytes from a stream."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        filled += count
    return data
