"""A checkpoint in which layers are packed in different ways has all weights, and its other tensors in their order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.readers.packed.groups import unpack
from cellbridge.parity.weights.readers.packed.layouts import unpacked
from tests.parity.weights.readers.packed.packing import checkpoint, words


def layers() -> dict[str, Any]:
    return {
        "embedding.weight": np.ones((4, 2), np.float16),
        "a.qweight": np.zeros((2, 8), np.int32),
        "a.qzeros": np.zeros((1, 1), np.int32),
        "a.scales": np.ones((1, 8), np.float16),
        "b.qweight": np.zeros((16, 1), np.int32),
        "b.qzeros": np.zeros((1, 1), np.int32),
        "b.scales": np.ones((1, 8), np.float16),
        "c.weight_packed": np.zeros((3, 1), np.int32),
        "c.weight_scale": np.ones((3, 1), np.float16),
        "c.weight_shape": np.array([3, 4]),
        "d.weight_scale": np.zeros((2, 1), ml_dtypes.float8_e4m3fn),
        "d.weight_packed": np.zeros((2, 8), np.uint8),
        "d.weight_global_scale": np.ones(1, np.float32),
        "e.weight": np.zeros((2, 2), ml_dtypes.float8_e4m3fn),
        "e.weight_scale": np.float32(1),
        "e.input_scale": np.float32(1),
        "f.weight": np.zeros((2, 2), np.int8),
        "f.SCB": np.ones(2, np.float32),
        "norm.weight": np.ones(2, np.float16),
    }


def test_all_layouts_are_unpacked() -> None:
    tensors = unpacked(checkpoint(layers(), bits=4, config_groups={"g": {"weights": {"num_bits": 8}}})).tensors
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {
        "embedding.weight": "float16",
        "a.weight": "GPTQ 4-bit",
        "b.weight": "AWQ 4-bit",
        "c.weight": "packed 8-bit",
        "d.weight": "NVFP4",
        "e.weight": "float8_e4m3fn with scales",
        "e.input_scale": "float32",
        "f.weight": "bitsandbytes int8",
        "norm.weight": "float16",
    }
    assert list(tensors)[:2] == ["embedding.weight", "a.weight"]
    for tensor in tensors.values():
        assert tensor.read().shape == tensor.shape


def test_a_checkpoint_that_is_not_packed_is_itself() -> None:
    stored = checkpoint({"a.weight": np.ones((2, 2), np.float32), "a.weight_scale": np.ones(2, np.float32)})
    assert unpacked(stored) is stored


@pytest.mark.parametrize("config", [None, 3, [], {"quantization_config": []}, {"quantization_config": {1: 2}}])
def test_a_configuration_of_another_form_says_nothing(config: object) -> None:
    stored = checkpoint({name: array for name, array in layers().items() if name[:2] in ("d.", "e.", "f.")})
    stored = type(stored)(stored.path, stored.format, stored.tensors, metadata={"config": config})
    assert set(unpacked(stored).tensors) == {"d.weight", "e.weight", "e.input_scale", "f.weight"}


@pytest.mark.parametrize("bits", range(1, 9))
def test_numbers_of_any_width_are_unpacked(bits: int) -> None:
    numbers = np.random.default_rng(bits).integers(0, 2**bits, (2, 33))
    packed = np.array([words(row, bits) for row in numbers], np.int32)
    np.testing.assert_array_equal(unpack(packed, bits, 33), numbers)
