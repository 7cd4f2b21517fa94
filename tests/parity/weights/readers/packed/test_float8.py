"""Weights of 8 bits are multiplied by their scales, whatever grid these form."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.packed.float8 import unpack_float8
from cellbridge.parity.weights.readers.tensor import StoredTensor
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.packing import checkpoint, random_values

E4M3 = ml_dtypes.float8_e4m3fn
ROWS, WIDTH = 200, 320  # the last blocks of 128 x 128 are cut off
VALUES = random_values(ROWS, WIDTH) * np.exp(np.arange(WIDTH, dtype=np.float32) / 40)


def packed(block: tuple[int, int], scale: str = "weight_scale") -> dict[str, Array]:
    """The weight with a scale for each block, which is cut off at the last rows and columns."""
    grid = [-(-length // size) for length, size in zip(VALUES.shape, block, strict=True)]
    scales = np.zeros(grid, np.float32)
    codes = np.zeros(VALUES.shape, E4M3)
    for i in range(grid[0]):
        for j in range(grid[1]):
            place = (slice(i * block[0], (i + 1) * block[0]), slice(j * block[1], (j + 1) * block[1]))
            scales[i, j] = np.abs(VALUES[place]).max() / 448
            codes[place] = (VALUES[place] / scales[i, j]).astype(E4M3)
    return {"l.weight": codes, f"l.{scale}": scales}


def weight(arrays: dict[str, Array], **config: Any) -> StoredTensor:
    unpacked = unpack_float8(checkpoint(arrays, **config))
    assert unpacked is not None
    assert list(unpacked.tensors) == ["l.weight"]
    return unpacked.tensors["l.weight"]


@pytest.mark.parametrize("scale", ["weight_scale", "weight_scale_inv"])
@pytest.mark.parametrize("block", [(ROWS, WIDTH), (1, WIDTH), (128, 128), (16, 64), (1, 20), (100, 160)])
def test_values_come_back_within_a_step(block: tuple[int, int], scale: str) -> None:
    config = {} if 1 in block or block[0] == ROWS else {"weight_block_size": list(block)}
    tensor = weight(packed(block, scale), **config)
    assert (tensor.shape, tensor.dtype) == (VALUES.shape, "float8_e4m3fn with scales")
    values = tensor.read()
    assert values.dtype == np.float32
    assert (np.abs(values - VALUES) <= np.abs(VALUES) / 16 + np.abs(VALUES).max() / 448 / 1024).all()
    parts = [tensor.read_rows(start, stop) for start, stop in ((0, 1), (1, 130), (130, ROWS))]
    np.testing.assert_array_equal(np.concatenate(parts), values)


def test_the_configuration_says_which_of_two_grids_it_is() -> None:
    arrays = packed((128, 128))
    groups = {str(size): {"weights": {"block_structure": [size, 128]}} for size in (16, 128)}
    expected = weight(arrays, quant_method="fp8", weight_block_size=[128, 128]).read()
    np.testing.assert_array_equal(weight(arrays, config_groups=groups).read(), expected)
    assert np.abs(weight(arrays, weight_block_size=[100, 128]).read() - expected).max() > 1
    with pytest.raises(UsageError, match=r"blocks of \[100, 128\] fit, and no configuration says which"):
        weight(arrays)
    shorter = {**arrays, "l.weight": arrays["l.weight"][:191]}
    np.testing.assert_array_equal(weight(shorter, weight_block_size=None).read(), expected[:191])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (ROWS,), (ROWS, 1)])
def test_scales_of_all_or_of_rows_may_have_any_shape(shape: tuple[int, ...]) -> None:
    arrays = packed((ROWS, WIDTH) if np.prod(shape) == 1 else (1, WIDTH))
    expected = weight(arrays).read()
    np.testing.assert_array_equal(
        weight({**arrays, "l.weight_scale": arrays["l.weight_scale"].reshape(shape)}).read(), expected
    )


def test_experts_have_their_own_scales() -> None:
    arrays = {name: np.stack([array, array[::-1]]) for name, array in packed((40, 64)).items()}
    values = weight(arrays).read()
    np.testing.assert_array_equal(values[1], values[0][::-1])
    per_expert = {"l.weight": arrays["l.weight"], "l.weight_scale": np.float32([1, 2])}
    np.testing.assert_array_equal(weight(per_expert).read()[1], 2 * arrays["l.weight"][1].astype(np.float32))


def test_scales_of_one_byte_are_powers_of_two() -> None:
    exponents = np.random.default_rng(0).integers(120, 134, (ROWS, WIDTH // 32)).astype(np.uint8)
    steps = np.repeat(2.0 ** (exponents.astype(int) - 127), 32, axis=1)
    codes = (VALUES / np.abs(VALUES).max()).astype(E4M3)
    for scales in (exponents, exponents.view(ml_dtypes.float8_e8m0fnu)):
        values = weight({"l.weight": codes, "l.weight_scale": scales}).read()
        np.testing.assert_array_equal(values, codes.astype(np.float32) * steps)


def test_whole_numbers_have_zero_points() -> None:
    low, high = VALUES.min(axis=1, keepdims=True), VALUES.max(axis=1, keepdims=True)
    scales = ((high - low) / 255).astype(np.float32)
    zeros = np.rint(-low / scales - 128).astype(np.int8)
    codes = np.clip(np.rint(VALUES / scales) + zeros, -128, 127).astype(np.int8)
    arrays = {"l.weight": codes, "l.weight_scale": scales, "l.weight_zero_point": zeros}
    assert (np.abs(weight(arrays).read() - VALUES) < 1.01 * scales).all()
    off_by_one = weight({**arrays, "l.weight_zero_point": zeros + np.int8(1)}).read()
    assert (np.abs(off_by_one - VALUES) > 0.4 * scales).mean() > 0.9


def test_planted_faults_give_other_values() -> None:
    arrays = packed((16, 64))
    for scales in (arrays["l.weight_scale"][::-1], np.ones((13, 5), np.float32), 1 / arrays["l.weight_scale"]):
        assert np.abs(weight({**arrays, "l.weight_scale": scales}).read() - VALUES).max() > 1


def test_without_scales_it_is_another_tensor() -> None:
    codes = {"l.weight": packed((128, 128))["l.weight"]}
    assert unpack_float8(checkpoint(codes)) is None
    for method in ("fp8", "compressed-tensors", "modelopt"):
        with pytest.raises(UsageError, match=r"no l\.weight_scale beside it"):
            unpack_float8(checkpoint(codes, quant_method=method))


SCALES = np.ones((2, 3), np.float32)
CONTRADICTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an axis of 200 has 3 scales, which can't": ({"l.weight_scale": np.ones((3, 3), np.float32)}, {}),
    r"shapes contradict: .*\[7\]": ({"l.weight_scale": np.ones(7, np.float32)}, {}),
    "shapes contradict": ({"l.weight_scale": np.ones((2, 3, 1), np.float32)}, {}),
    "another dtype": ({"l.weight_scale": SCALES.astype(np.int32)}, {}),
    "one for 32 columns": ({"l.weight_scale": SCALES.astype(np.uint8)}, {}),
    "scales of two kinds": ({"l.weight_scale_inv": SCALES}, {}),
    "contradict": ({"l.weight_zero_point": SCALES[1:]}, {}),
    "the configuration says blocks of 64": ({}, {"weight_block_size": [64, 64]}),
    "the configuration says blocks of 120": ({}, {"weight_block_size": [120, 128]}),
    "says weight_block_size=128": ({}, {"weight_block_size": 128}),
    "says weight_block_size=.True": ({}, {"weight_block_size": [True, True]}),
    "says weight_block_size=.0": ({}, {"weight_block_size": [0, 128]}),
}


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradictions_are_refused(fault: str) -> None:
    tensors, config = CONTRADICTIONS[fault]
    with pytest.raises(UsageError, match=fault):
        weight({**packed((128, 128)), **tensors}, **config)
