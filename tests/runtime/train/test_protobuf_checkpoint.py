"""Checkpoints that MindSpore wrote: protobuf messages."""

from __future__ import annotations

import binascii
import contextlib
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import nn
from cellbridge.runtime.train.protobuf_checkpoint import read_protobuf


def _messages():
    """The class of MindSpore's message, made by the library that MindSpore writes with."""
    text, integer, raw, message = 9, 3, 12, 11
    file = descriptor_pb2.FileDescriptorProto(name="checkpoint_of_tests.proto", package="of_tests", syntax="proto2")
    fields = {
        "TensorProto": [
            ("dims", 1, 3, integer, ""),
            ("tensor_type", 2, 2, text, ""),
            ("tensor_content", 3, 2, raw, ""),
        ],
        "Value": [("tag", 1, 2, text, ""), ("tensor", 2, 1, message, ".of_tests.TensorProto")],
        "Checkpoint": [("value", 1, 3, message, ".of_tests.Value")],
    }
    for name, entries in fields.items():
        kind = file.message_type.add(name=name)
        for field, number, label, type_, of in entries:
            kind.field.add(name=field, number=number, label=label, type=type_, type_name=of or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("of_tests.Checkpoint"))


Checkpoint = _messages()
TYPES = {"float32": "Float32", "int64": "Int64", "bool": "Bool", "float16": "Float16", "uint8": "UInt8"}


def message(name: str, array: np.ndarray, dims=None, kind=None) -> bytes:
    checkpoint = Checkpoint()
    value = checkpoint.value.add()
    value.tag = name
    value.tensor.dims.extend(array.shape if dims is None else dims)
    value.tensor.tensor_type = kind or TYPES[array.dtype.name]
    value.tensor.tensor_content = array.tobytes()
    return bytes(checkpoint.SerializeToString())


ARRAYS = {
    "conv.weight": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "steps": np.array([7], np.int64),
    "mask": np.array([True, False]),
    "half": np.array([[0.5, -2]], np.float16),
}


def test_what_mindspore_wrote_is_read():
    data = b"".join(message(name, array) for name, array in ARRAYS.items())
    data += message("scale", np.array(2.5, np.float32), dims=[0])
    large = np.arange(10, dtype=np.uint8)
    data += message("large", large[:6], dims=[2, 5]) + message("large", large[6:], dims=[2, 5])
    data += message("note", np.array("fünf"), dims=[0], kind="str")
    arrays = read_protobuf(data + b"crc_num" + binascii.crc32(data).to_bytes(10, "big"))
    assert list(arrays) == [*ARRAYS, "scale", "large", "note"]
    for name, array in {**ARRAYS, "scale": np.float32(2.5), "large": large.reshape(2, 5)}.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    assert arrays["note"] == "fünf"


def test_a_network_is_loaded_from_it(tmp_path: Path):
    net = nn.Dense(3, 2)
    weights = {"weight": np.ones((2, 3), np.float32) * 4, "bias": np.array([1, -1], np.float32)}
    (tmp_path / "net.ckpt").write_bytes(b"".join(message(name, array) for name, array in weights.items()))
    loaded = ms.load_checkpoint(tmp_path / "net.ckpt", net, crc_check=True)
    assert all(isinstance(parameter, ms.Parameter) for parameter in loaded.values())
    np.testing.assert_array_equal(net.weight.asnumpy(), weights["weight"])
    np.testing.assert_array_equal(net.bias.asnumpy(), weights["bias"])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (message("w", np.ones(3, np.float32))[:-2], "ends within"),
        (message("w", np.ones(3, np.float32), dims=[4]), "12 bytes, needed those of Float32"),
        (message("w", np.ones(3, np.float32), dims=[2**62, 2**62]), "12 bytes"),
        (message("w", np.ones(3, np.float32), kind="Complex64"), "dtype 'Complex64', which isn't read"),
        (message("w", np.ones(3, np.float32)) + b"crc_num" + bytes(10), "checksum"),
        (b"\x0a" + b"\xff" * 20, "ends within"),
    ],
)
def test_damaged_files_are_told(data, words, tmp_path: Path):
    (tmp_path / "net.ckpt").write_bytes(data)
    with pytest.raises(ValueError, match=rf"net.ckpt' is corrupted: .*{words}"):
        ms.load_checkpoint(tmp_path / "net.ckpt")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_no_bytes_bring_another_error(tail, place, byte):
    data = bytearray(b"".join(message(name, array) for name, array in ARRAYS.items()))
    data[place % len(data)] = byte
    with contextlib.suppress(ValueError):
        read_protobuf(bytes(data) + tail)
