"""GGUF files come back with torch's shapes and values, and a damaged one is refused in one sentence."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.readers.gguf import read_gguf
from cellbridge.runtime.errors import UsageError

Q4_0, Q8_0 = 2, 8


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", 4, value)


def texts(key: str, *values: str) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def floats(key: str, *values: float) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 6, len(values)) + struct.pack(f"<{len(values)}f", *values)


def entry(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)


def header(entries: list[bytes], tensors: list[bytes], version: int = 3) -> bytes:
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries) + b"".join(tensors)
    return data + bytes(-len(data) % 32)


def q8_0(values: np.ndarray[Any, Any]) -> bytes:
    """Blocks of 32: a scale in half precision, then the bytes."""
    blocks = values.reshape(-1, 32)
    scales = np.float16(np.abs(blocks).max(axis=1) / 127)
    codes = np.rint(blocks / scales[:, None].astype(np.float32)).astype(np.int8)
    return b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, codes, strict=True))


def q4_0(values: np.ndarray[Any, Any], exchanged: bool = False) -> bytes:
    """Blocks of 32: a scale in half precision, then 16 bytes of which the low nibbles are the first 16 values."""
    data = b""
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        codes = [round(float(value) / float(scale)) + 8 for value in block]
        low, high = (codes[16:], codes[:16]) if exchanged else (codes[:16], codes[16:])
        data += scale.tobytes() + bytes(a | b << 4 for a, b in zip(low, high, strict=True))
    return data


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], str]:
    def to_file(data: bytes) -> str:
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        return str(path)

    return to_file


@pytest.mark.parametrize("version", [2, 3])
def test_plain_tensors_have_torchs_shape(write: Callable[[bytes], str], version: int) -> None:
    full = np.arange(12, dtype="<f4").reshape(3, 4)
    half = np.arange(4).astype(ml_dtypes.bfloat16)
    tensors = [entry("a.weight", (3, 4), 0, 0), entry("a.bias", (4,), 30, 64)]
    about = [number("llama.block_count", 2), text("general.name") + struct.pack("<I", 8) + text("small")]
    about += [texts("tokenizer.ggml.tokens", "a", "b", "c"), floats("scores", *range(2000)), floats("few", 1.5, 2)]
    path = write(header(about, tensors, version) + full.tobytes() + bytes(16) + half.tobytes())
    stored = read_gguf(path)
    assert stored.format == f"GGUF, version {version}"
    assert [(tensor.name, tensor.shape, tensor.dtype) for tensor in stored.tensors.values()] == [
        ("a.weight", (3, 4), "float32"), ("a.bias", (4,), "bfloat16"),
    ]  # fmt: skip
    np.testing.assert_array_equal(stored.tensors["a.weight"].read_rows(1, 3), full[1:])
    np.testing.assert_array_equal(stored.tensors["a.bias"].read(), half)
    assert stored.metadata == {
        "llama.block_count": 2, "general.name": "small", "tokenizer.ggml.tokens.length": 3, "scores.length": 2000,
        "few": (1.5, 2.0),
    }  # fmt: skip


@pytest.mark.parametrize(("pack", "kind", "steps"), [(q8_0, Q8_0, 127), (q4_0, Q4_0, 7)])
def test_blocks_come_back_within_a_step(
    write: Callable[[bytes], str], pack: Callable[..., bytes], kind: int, steps: int
) -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 64), np.float32)
    tensor = read_gguf(write(header([], [entry("w", values.shape, kind, 0)]) + pack(values))).tensors["w"]
    assert (tensor.shape, tensor.dtype) == ((2, 3, 64), gguf.GGMLQuantizationType(kind).name)
    step = np.repeat(np.abs(values.reshape(-1, 32)).max(axis=1) / steps, 32).reshape(values.shape)
    assert (np.abs(tensor.read() - values) < 0.51 * step).all()


def test_exchanged_nibbles_are_other_values(write: Callable[[bytes], str]) -> None:
    values = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    tensor = read_gguf(write(header([], [entry("w", (3, 64), Q4_0, 0)]) + q4_0(values, exchanged=True))).tensors["w"]
    assert np.abs(tensor.read() - values).max() > 1


@pytest.mark.parametrize("kind", [kind for kind in gguf.GGML_QUANT_SIZES if kind.name not in ("Q1_0", "Q8_1", "Q8_K")])
def test_every_format_reads_by_rows_as_the_package_does(
    write: Callable[[bytes], str], kind: gguf.GGMLQuantizationType
) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(0).integers(0, 60, (3, 2 * size), np.uint8)
    padding = bytes(-data.nbytes % 32)
    entries = [entry("w", (3, 2 * block), kind, 0), entry("b", (2 * block,), kind, data.nbytes + len(padding))]
    stored = read_gguf(write(header([], entries) + data.tobytes() + padding + data[1].tobytes()))
    weight, bias = stored.tensors["w"], stored.tensors["b"]
    rows = [weight.read_rows(row, row + 1) for row in range(3)]
    np.testing.assert_array_equal(np.concatenate(rows), weight.read())
    np.testing.assert_array_equal(bias.read(), rows[1][0])
    np.testing.assert_array_equal(bias.read_rows(1, 2 * block - 1), rows[1][0, 1:-1])
    if weight.dtype == kind.name:
        np.testing.assert_array_equal(weight.read(), gguf.dequantize(data, kind))


def test_a_file_that_ends_early_is_refused(write: Callable[[bytes], str]) -> None:
    data = header([number("a", 1), texts("b", "x", "y")], [entry("w", (2, 4), 0, 0)]) + bytes(32)
    read_gguf(write(data))
    for length in range(len(data)):
        with pytest.raises(UsageError, match="can't read"):
            read_gguf(write(data[:length]))


HUGE = struct.pack("<Q", 2**60)
FAULTS = {
    "it isn't a GGUF file": b"GGML" + bytes(64),
    "it has version 1": header([], [], version=1),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "holds no parameters": header([], []),
    "ends within its header": b"GGUF" + struct.pack("<I", 3) + HUGE + HUGE,
    "a name of 1152921504606846976 bytes": b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + HUGE,
    "the file ends within": header([text("a") + struct.pack("<II", 9, 6) + HUGE], []),
    "claims 1152921504606846976 texts": header([text("a") + struct.pack("<II", 9, 8) + HUGE], []),
    "unknown type 77": header([text("a") + struct.pack("<I", 77)], []),
    "an array of the unknown type 9": header([text("a") + struct.pack("<IIQ", 9, 9, 1)], []),
    "the key 'a' twice": header([number("a", 1), number("a", 2)], []),
    "not a power of two": header([number("general.alignment", 24)], []),
    "two tensors of the same name": header([], [entry("w", (8,), 0, 0), entry("w", (8,), 0, 32)]) + bytes(64),
    "200000 axes": header([], [text("w") + struct.pack("<I", 200000)]),
    "the shape": header([], [entry("w", (4, 0), 0, 0)]) + bytes(64),
    "w has the type 4,": header([], [entry("w", (4, 4), 4, 0)]) + bytes(64),
    "w has the type Q8_K": header([], [entry("w", (4, 256), 15, 0)]) + bytes(64),
    "w has 33 columns, and Q4_0": header([], [entry("w", (4, 33), Q4_0, 0)]) + bytes(640),
    "would end at byte": header([], [entry("w", (2**30, 2**30), 0, 0)]) + bytes(64),
    "would end": header([], [entry("w", (4, 4), 0, 2**40)]) + bytes(64),
    "w and v overlap": header([], [entry("w", (4, 4), 0, 0), entry("v", (4,), 0, 32)]) + bytes(64),
    "a multiple of 32 bytes": header([], [entry("w", (4,), 0, 8)]) + bytes(64),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_is_refused(write: Callable[[bytes], str], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        read_gguf(write(FAULTS[fault]))


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_gguf(str(tmp_path / "no.gguf"))


def test_without_the_package_the_error_says_what_to_install(
    write: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UsageError, match="pip install gguf"):
        read_gguf(write(header([], [entry("w", (8,), 0, 0)]) + bytes(32)))


def test_a_part_of_a_model_is_said_to_be_one(write: Callable[[bytes], str]) -> None:
    path = write(header([number("split.count", 3)], [entry("w", (8,), 0, 0)]) + bytes(32))
    assert "is one of 3 files" in read_gguf(path).notes[0]
