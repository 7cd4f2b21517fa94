"""Data of a program's stored tensors: converted, and read from mapped files, when they are used."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from cellbridge.runtime.ir.stored import LARGE, StoredData, mapped_file
from cellbridge.runtime.ir.types import BFLOAT16, FLOAT32, Type, Value


def value(name: str, shape: tuple[int, ...]) -> Value:
    return Value(name, Type(FLOAT32, shape))


@pytest.fixture
def mapped(tmp_path: Path) -> np.ndarray:
    """Numbers in bfloat16 in a file, enough to be read when they are used."""
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(LARGE).astype(BFLOAT16).tobytes())
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return np.frombuffer(content, BFLOAT16).reshape(2, -1)


def test_data_have_the_dtype_of_their_value() -> None:
    same, converted = value("same", (2,)), value("other", (3,))
    given = np.ones(2, np.float32)
    data = StoredData({same: given, converted: np.array([1, 2, 3], np.int64)})
    assert data[same] is given
    assert data[converted].dtype == FLOAT32
    assert list(data) == [same, converted]
    assert len(data) == 2
    arrays = data.arrays()
    assert arrays[same] is given
    np.testing.assert_array_equal(arrays[converted], np.array([1, 2, 3], np.float32))
    assert value("third", (1,)) not in data


def test_a_mapped_file_is_found_behind_views(mapped: np.ndarray) -> None:
    assert mapped_file(mapped[1:, 3:].T) is mapped_file(mapped)
    assert mapped_file(mapped) is not None
    assert mapped_file(mapped.copy()) is None
    assert mapped_file(np.frombuffer(b"1234", np.uint8)) is None


def test_large_data_of_files_are_read_when_they_are_used(mapped: np.ndarray) -> None:
    big, small, converted = value("big", mapped.shape), value("small", (2, 4)), value("own", mapped.shape)
    data = StoredData({big: mapped, small: mapped[:, :4], converted: mapped.astype(np.float32)})
    assert [data.is_read_when_used(each) for each in (big, small, converted)] == [True, False, False]
    read = data.read(big)
    assert read.dtype == FLOAT32
    assert mapped_file(read) is None
    np.testing.assert_array_equal(read, mapped.astype(np.float32))
    np.testing.assert_array_equal(data.read(big), read)  # its pages were given back, and are read again
