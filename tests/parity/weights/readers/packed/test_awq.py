"""Weights that AWQ packed come back within a step, from both of its versions."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.packed.awq import unpack_awq
from cellbridge.parity.weights.readers.packed.gptq import unpack_gptq
from cellbridge.parity.weights.readers.tensor import StoredTensor
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.packing import checkpoint, quantized, random_values, words

ROWS, WIDTH, SIZE = 24, 512, 128
VALUES = random_values(ROWS, WIDTH)
CODES, SCALES, ZEROS = quantized(VALUES, 4, SIZE)
STEP = np.repeat(SCALES.astype(np.float32), SIZE, axis=1)
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def eights(numbers: Array, order: list[int]) -> Array:
    """Words that each hold eight of a row's numbers in an order."""
    return np.array([[words(row[k : k + 8][order], 4)[0] for k in range(0, len(row), 8)] for row in numbers], np.int32)


def gemm(order: list[int] = ORDER) -> dict[str, Array]:
    return {"l.qweight": eights(CODES.T, order), "l.qzeros": eights(ZEROS.T, order), "l.scales": SCALES.T}


def gemv() -> dict[str, Array]:
    padding = ((0, 0), (0, 4))
    in_order = list(range(8))
    zeros, scales = np.pad(ZEROS, padding), np.pad(SCALES, padding)
    return {"l.qweight": eights(CODES, in_order), "l.qzeros": eights(zeros, in_order), "l.scales": scales}


def weight(arrays: dict[str, Array], **config: object) -> StoredTensor:
    stored = checkpoint(arrays, **config)
    assert unpack_gptq(stored) is None
    unpacked = unpack_awq(stored)
    assert unpacked is not None
    assert list(unpacked.tensors) == ["l.weight"]
    return unpacked.tensors["l.weight"]


@pytest.mark.parametrize(("arrays", "config"), [(gemm(), {}), (gemv(), {"group_size": SIZE, "version": "gemv"})])
def test_values_come_back_within_a_step(arrays: dict[str, Array], config: dict[str, object]) -> None:
    tensor = weight(arrays, **config)
    assert (tensor.name, tensor.shape, tensor.dtype) == ("l.weight", (ROWS, WIDTH), "AWQ 4-bit")
    values = tensor.read()
    assert values.dtype == np.float32
    assert (np.abs(values - VALUES) < 1.01 * STEP).all()
    parts = [tensor.read_rows(start, stop) for start, stop in ((0, 3), (3, 17), (17, ROWS))]
    np.testing.assert_array_equal(np.concatenate(parts), values)


@pytest.mark.parametrize(
    "fault",
    [gemm(list(range(8))), {**gemm(), "l.scales": np.ones_like(SCALES.T)},
     {**gemm(), "l.qzeros": gemm()["l.qzeros"] - 0x11111111}],
    ids=["nibbles in order", "no scales", "zeros off by one"],
)  # fmt: skip
def test_planted_faults_give_other_values(fault: dict[str, Array]) -> None:
    assert (np.abs(weight(fault).read() - VALUES) > 0.9 * STEP).mean() > 0.5


FAULTS = {
    "there is no l.qzeros": ({"l.qweight": gemm()["l.qweight"], "l.scales": SCALES.T}, {}),
    "neither GPTQ's nor AWQ's": ({**gemm(), "l.scales": SCALES.T[:, 8:]}, {}),
    "its shapes are neither": ({**gemm(), "l.qweight": gemm()["l.qweight"][:, 1:]}, {}),
    r"neither .* int16": ({**gemm(), "l.qweight": gemm()["l.qweight"].astype(np.int16)}, {}),
    "can't have 4 groups": ({**gemm(), "l.qweight": gemm()["l.qweight"][1:]}, {}),
    "with 4 bits only": (gemm(), {"bits": 8}),
    "says group_size=0": (gemv(), {}),
    "says group_size=32": (gemv(), {"group_size": 32}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_contradictions_are_refused(fault: str) -> None:
    arrays, config = FAULTS[fault]
    with pytest.raises(UsageError, match=fault):
        weight(arrays, **config)


def test_a_configuration_with_too_few_groups_is_refused() -> None:
    with pytest.raises(UsageError, match="more than 2 groups"):
        weight(gemv(), group_size=256).read()


@pytest.mark.parametrize("method", ["gptq", "awq", None])
def test_where_shapes_fit_both_the_configuration_decides(method: str | None) -> None:
    shape = (64, 8)
    arrays = {"l.qweight": np.zeros(shape, np.int32), "l.qzeros": np.zeros((64, 1), np.int32)}
    stored = checkpoint({**arrays, "l.scales": np.zeros(shape, np.float16)}, quant_method=method, bits=4, group_size=64)
    if method is None:
        with pytest.raises(UsageError, match="may be GPTQ's or AWQ's"):
            unpack_gptq(stored)
    else:
        assert (unpack_gptq(stored) is None) == (method == "awq")
