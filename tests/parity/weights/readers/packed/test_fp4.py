"""Weights of MXFP4 and NVFP4 come back within a step, from the layouts of gpt-oss, compressed-tensors and ModelOpt."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.packed.fp4 import unpack_fp4
from cellbridge.parity.weights.readers.tensor import StoredTensor
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.packing import checkpoint, random_values

ROWS, WIDTH = 6, 64
VALUES = random_values(ROWS, WIDTH)
HALF_GAP = 1.0
"""Half of the widest gap between numbers, 4 and 6, in scales."""


def nearest(numbers: Array) -> Array:
    """The patterns of the nearest numbers: ml_dtypes knows E2M1 as well."""
    return numbers.astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15


def mx_scales(values: Array) -> tuple[Array, Array]:
    """Powers of two for 32 columns as bytes, and as numbers for each column."""
    exponents = np.ceil(np.log2(np.abs(values.reshape(*values.shape[:-1], -1, 32)).max(axis=-1) / 6)).astype(int)
    return (exponents + 127).astype(np.uint8), np.repeat(2.0**exponents, 32, axis=-1).astype(np.float32)


def in_bytes(patterns: Array) -> Array:
    return patterns[..., 0::2] | patterns[..., 1::2] << 4


def nv_parts(whole: float) -> tuple[Array, Array, Array]:
    """Bytes, scales of 16 columns, and the scale of each column; `whole` is multiplied with all."""
    scales = (np.abs(VALUES.reshape(ROWS, -1, 16)).max(axis=2) / 6 / whole).astype(ml_dtypes.float8_e4m3fn)
    steps = np.repeat(scales.astype(np.float32) * whole, 16, axis=1)
    return in_bytes(nearest(VALUES / steps)), scales, steps


def compressed() -> dict[str, Array]:
    octets, scales, _ = nv_parts(1 / 500)
    return {"l.weight_packed": octets, "l.weight_scale": scales, "l.weight_global_scale": np.float32([500])}


def modelopt() -> dict[str, Array]:
    octets, scales, _ = nv_parts(1 / 500)
    return {"l.weight": octets, "l.weight_scale": scales, "l.weight_scale_2": np.float32(1 / 500)}


def mxfp4(name: str = "l.weight_packed") -> dict[str, Array]:
    scales, steps = mx_scales(VALUES)
    return {name: in_bytes(nearest(VALUES / steps)), "l.weight_scale": scales}


def gpt_oss(separator: str = "_") -> dict[str, Array]:
    experts = np.stack([VALUES, -VALUES[::-1]])
    scales, steps = mx_scales(experts)
    octets = in_bytes(nearest(experts / steps)).reshape(2, ROWS, WIDTH // 32, 16)
    return {f"e.up{separator}blocks": octets, f"e.up{separator}scales": scales, "e.up_bias": np.zeros(3)}


def weight(arrays: dict[str, Array], name: str = "l.weight") -> StoredTensor:
    unpacked = unpack_fp4(checkpoint(arrays))
    assert unpacked is not None
    assert [other for other in unpacked.tensors if "bias" not in other] == [name]
    return unpacked.tensors[name]


@pytest.mark.parametrize(
    ("arrays", "dtype", "steps"),
    [(compressed(), "NVFP4", nv_parts(1 / 500)[2]), (modelopt(), "NVFP4", nv_parts(1 / 500)[2]),
     (mxfp4(), "MXFP4", mx_scales(VALUES)[1]), (mxfp4("l.weight"), "MXFP4", mx_scales(VALUES)[1])],
    ids=["compressed-tensors", "ModelOpt", "MXFP4, compressed-tensors", "MXFP4, ModelOpt"],
)  # fmt: skip
def test_values_come_back_within_a_step(arrays: dict[str, Array], dtype: str, steps: Array) -> None:
    tensor = weight(arrays)
    assert (tensor.shape, tensor.dtype) == ((ROWS, WIDTH), dtype)
    values = tensor.read()
    assert (np.abs(values - VALUES) < (HALF_GAP + 0.3) * steps).all()
    assert (np.abs(values - VALUES) < 0.26 * np.maximum(np.abs(VALUES), steps)).all()
    np.testing.assert_array_equal(np.concatenate([tensor.read_rows(0, 2), tensor.read_rows(2, ROWS)]), values)


@pytest.mark.parametrize("separator", ["_", "."])
def test_experts_of_gpt_oss_are_as_the_model_has_them(separator: str) -> None:
    tensor = weight(gpt_oss(separator), "e.up")
    experts = np.stack([VALUES, -VALUES[::-1]])
    expected = experts.swapaxes(1, 2) if separator == "_" else experts
    assert (tensor.shape, tensor.dtype) == (expected.shape, "MXFP4")
    assert np.abs(tensor.read() - expected).max() < 0.5
    np.testing.assert_array_equal(tensor.read_rows(1, 2)[0], tensor.read()[1])


@pytest.mark.parametrize("fault", ["nibbles", "scales", "whole", "divided"])
def test_planted_faults_give_other_values(fault: str) -> None:
    arrays = compressed()
    if fault == "nibbles":
        arrays["l.weight_packed"] = arrays["l.weight_packed"] << 4 | arrays["l.weight_packed"] >> 4
    elif fault == "scales":
        arrays["l.weight_scale"] = arrays["l.weight_scale"][::-1]
    elif fault == "whole":
        arrays["l.weight_global_scale"] = np.float32([1])
    else:
        arrays = {**modelopt(), "l.weight_scale_2": np.float32(500)}
    assert np.abs(weight(arrays).read() - weight(compressed()).read()).max() > 0.5


def test_a_scale_of_255_is_not_a_number() -> None:
    arrays = mxfp4()
    arrays["l.weight_scale"][1, 1] = 255
    missing = np.isnan(weight(arrays).read())
    assert missing[1, 32:].all()
    assert missing.sum() == 32


def test_each_expert_may_have_its_scale() -> None:
    arrays = {name: np.stack([array, array]) for name, array in compressed().items()}
    arrays["l.weight_global_scale"] = np.float32([500, 250])
    values = weight(arrays).read()
    np.testing.assert_allclose(values[1], 2 * values[0], rtol=1e-6)
    np.testing.assert_array_equal(weight(arrays).read_rows(1, 2)[0], values[1])


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    r"no l\.weight_scale beside": {**compressed(), "l.weight_scale": None},
    "no l.weight_global_scale": {**compressed(), "l.weight_global_scale": None},
    "no l.weight_scale_2": {**modelopt(), "l.weight_scale_2": None},
    "neither MXFP4's nor NVFP4's": {**compressed(), "l.weight_scale": np.zeros((ROWS, 2), ml_dtypes.float8_e4m3fn)},
    "shapes are neither": {**mxfp4(), "l.weight_scale": np.zeros((ROWS, 4), np.uint8)},
    "are neither": {**mxfp4(), "l.weight_scale": np.zeros((ROWS, 2), np.float32)},
    "shapes contradict": {**compressed(), "l.weight_global_scale": np.zeros(ROWS, np.float32)},
    "beside scales that are powers": {**mxfp4(), "l.weight_global_scale": np.float32([1])},
    "no e.up_scales": {**gpt_oss(), "e.up_scales": None},
    "contradict: _blocks": {**gpt_oss(), "e.up_scales": np.zeros((2, ROWS, 3), np.uint8)},
    "axes and not 4": {"e.up_blocks": np.zeros((2, 3, 16), np.uint8), "e.up_scales": np.zeros((2, 3), np.uint8)},
}


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradictions_are_refused(fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        weight({name: array for name, array in CONTRADICTIONS[fault].items() if array is not None})


@pytest.mark.parametrize("number", [0, -1, np.nan, np.inf])
def test_a_scale_of_the_whole_weight_is_positive(number: float) -> None:
    with pytest.raises(UsageError, match="isn't a positive number"):
        weight({**compressed(), "l.weight_global_scale": np.float32([number])}).read()


def test_other_bytes_are_left_alone() -> None:
    assert (
        unpack_fp4(checkpoint({"l.weight": np.zeros((2, 2), np.uint8), "blocks": np.zeros((3, 16), np.uint8)})) is None
    )
