"""Weights that compressed-tensors packed as whole numbers come back within a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.packed.compressed_integers import unpack_compressed_integers
from cellbridge.parity.weights.readers.tensor import StoredTensor
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.packing import checkpoint, quantized, random_values, words

ROWS, WIDTH = 10, 72
VALUES = random_values(ROWS, WIDTH)


def packed(bits: int = 4, size: int = 24, symmetric: bool = False) -> dict[str, Array]:
    codes, scales, zeros = quantized(VALUES, bits, size)
    if symmetric:
        scales = (np.abs(VALUES.reshape(ROWS, -1, size)).max(axis=2) / (2 ** (bits - 1) - 1)).astype(np.float16)
        codes = np.rint(VALUES / np.repeat(scales.astype(np.float32), size, axis=1)).astype(int) + 2 ** (bits - 1)
        codes = np.clip(codes, 0, 2**bits - 1)
    arrays = {
        "l.weight_packed": np.array([words(row, bits) for row in codes], np.int32),
        "l.weight_shape": np.array(VALUES.shape),
        "l.weight_scale": scales,
        "l.weight_zero_point": np.array([words(group, bits) for group in zeros.T], np.int32).T,
    }
    if symmetric:
        del arrays["l.weight_zero_point"]
    return arrays


def weight(arrays: dict[str, Array], **weights: Any) -> StoredTensor:
    config = {"config_groups": {"group_0": {"weights": weights}}} if weights else {}
    unpacked = unpack_compressed_integers(checkpoint(arrays, **config))
    assert unpacked is not None
    assert list(unpacked.tensors) == ["l.weight"]
    return unpacked.tensors["l.weight"]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("bits", "size"), [(2, 24), (4, 24), (8, 24), (4, 72)])
def test_values_come_back_within_a_step(bits: int, size: int, symmetric: bool) -> None:
    arrays = packed(bits, size, symmetric)
    tensor = weight(arrays, num_bits=bits, group_size=size, symmetric=symmetric)
    assert (tensor.name, tensor.shape, tensor.dtype) == ("l.weight", (ROWS, WIDTH), f"packed {bits}-bit")
    values = tensor.read()
    step = np.repeat(arrays["l.weight_scale"].astype(np.float32), size, axis=1)
    assert (np.abs(values - VALUES) < 1.01 * step).all()
    np.testing.assert_array_equal(np.concatenate([tensor.read_rows(0, 3), tensor.read_rows(3, ROWS)]), values)


def test_zero_points_may_be_bytes() -> None:
    arrays = packed()
    zeros = (quantized(VALUES, 4, 24)[2] - 8).astype(np.int8)
    np.testing.assert_array_equal(weight({**arrays, "l.weight_zero_point": zeros}).read(), weight(arrays).read())


def test_columns_have_the_groups_of_g_idx() -> None:
    arrays = packed()
    expected = weight(arrays).read()
    in_order = (np.arange(WIDTH) // 24).astype(np.int32)
    for g_idx in (in_order, np.full(WIDTH, -1, np.int32)):
        np.testing.assert_array_equal(weight({**arrays, "l.weight_g_idx": g_idx}).read(), expected)
    assert np.abs(weight({**arrays, "l.weight_g_idx": in_order[::-1].copy()}).read() - expected).max() > 0.1
    with pytest.raises(UsageError, match="outside of the 3 groups"):
        weight({**arrays, "l.weight_g_idx": in_order + 1}).read()


@pytest.mark.parametrize("fault", ["nibbles", "scales", "zeros"])
def test_planted_faults_give_other_values(fault: str) -> None:
    arrays = packed()
    numbers = arrays["l.weight_packed"]
    faults = {
        "nibbles": {"l.weight_packed": (numbers & 0x0F0F0F0F) << 4 | (numbers >> 4) & 0x0F0F0F0F},
        "scales": {"l.weight_scale": np.ones_like(arrays["l.weight_scale"])},
        "zeros": {"l.weight_zero_point": arrays["l.weight_zero_point"] - 0x11},
    }
    assert np.abs(weight({**arrays, **faults[fault]}).read() - weight(arrays).read()).max() > 0.1


CONTRADICTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "there is no l.weight_scale": ({"l.weight_scale": None}, {}),
    "there is no l.weight_shape": ({"l.weight_shape": None}, {}),
    "its shapes aren't read": ({"l.weight_shape": np.array([1, ROWS, WIDTH])}, {}),
    r"weight_shape is \(9, 72\)": ({"l.weight_shape": np.array([9, WIDTH])}, {}),
    "1000 columns in 9 words": ({"l.weight_shape": np.array([ROWS, 1000])}, {}),
    "72 columns in 9 words": ({}, {"num_bits": 8}),
    "and the configuration says otherwise": ({}, {"group_size": 36}),
    "has no weight_zero_point": ({"l.weight_zero_point": None}, {"symmetric": False}),
    "can't have 5 groups": ({"l.weight_scale": np.ones((ROWS, 5), np.float16)}, {}),
    "shapes contradict": ({"l.weight_scale": np.ones((ROWS + 1, 3), np.float16)}, {}),
    "shapes contradict.*zero_point": ({"l.weight_zero_point": np.zeros((ROWS, 3), np.int32)}, {}),
    "shapes contradict.*g_idx": ({"l.weight_g_idx": np.zeros(3, np.int32)}, {}),
    "another dtype": ({"l.weight_scale": np.ones((ROWS, 3), np.int8)}, {}),
}


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradictions_are_refused(fault: str) -> None:
    tensors, config = CONTRADICTIONS[fault]
    with pytest.raises(UsageError, match=fault):
        weight({name: array for name, array in {**packed(), **tensors}.items() if array is not None}, **config)


def test_a_configuration_of_other_form_says_nothing() -> None:
    for groups in (7, [1], {"group_0": 3}, {"group_0": {"weights": {"num_bits": [4]}}}):
        unpacked = unpack_compressed_integers(checkpoint(packed(), config_groups=groups))
        assert unpacked is not None
        assert unpacked.tensors["l.weight"].shape == (ROWS, WIDTH)
