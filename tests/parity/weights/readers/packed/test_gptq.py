"""Weights that GPTQ packed come back within a step, and what contradicts itself is refused."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.packed.gptq import unpack_gptq
from cellbridge.parity.weights.readers.tensor import StoredTensor, stored_array
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.packing import checkpoint, quantized, random_values, words

ROWS, WIDTH, SIZE = 32, 64, 32
VALUES = random_values(ROWS, WIDTH)


def gptq(bits: int = 4, offset: int = 1, order: Array | None = None) -> dict[str, Array]:
    """The tensors of a layer; with an order of the columns, groups are formed of them in that order."""
    order = np.arange(WIDTH) if order is None else order
    codes, scales, zeros = quantized(VALUES[:, order], bits, SIZE)
    codes = codes[:, np.argsort(order)]
    arrays = {
        "l.qweight": np.array([words(row, bits) for row in codes], np.int32).T,
        "l.qzeros": np.array([words(group, bits) for group in zeros.T - offset], np.int32),
        "l.scales": scales.T,
        "l.g_idx": (np.argsort(order) // SIZE).astype(np.int32),
    }
    return {"l.bias": np.zeros(ROWS, np.float16), **arrays}


def weight(arrays: dict[str, Array], **config: object) -> StoredTensor:
    unpacked = unpack_gptq(checkpoint(arrays, **config))
    assert unpacked is not None
    assert list(unpacked.tensors) == ["l.bias", "l.weight"]
    return unpacked.tensors["l.weight"]


def step(bits: int) -> Array:
    return np.repeat(quantized(VALUES, bits, SIZE)[1].astype(np.float32), SIZE, axis=1)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_values_come_back_within_a_step(bits: int) -> None:
    tensor = weight(gptq(bits))
    assert (tensor.name, tensor.shape, tensor.dtype) == ("l.weight", (ROWS, WIDTH), f"GPTQ {bits}-bit")
    values = tensor.read()
    assert values.dtype == np.float32
    assert (np.abs(values - VALUES) < 1.01 * step(bits)).all()
    np.testing.assert_array_equal(np.concatenate([tensor.read_rows(0, 5), tensor.read_rows(5, ROWS)]), values)


def test_columns_in_another_order_have_the_groups_of_g_idx() -> None:
    order = np.random.default_rng(1).permutation(WIDTH)
    arrays = gptq(order=order)
    assert np.abs(weight(arrays).read() - VALUES).max() < 0.6
    arrays["l.g_idx"] = np.sort(arrays["l.g_idx"])
    assert np.abs(weight(arrays).read() - weight(gptq(order=order)).read()).max() > 0.1


def test_zero_points_are_as_the_configuration_says() -> None:
    expected = weight(gptq(offset=1), checkpoint_format="gptq").read()
    np.testing.assert_array_equal(weight(gptq(offset=0), checkpoint_format="gptq_v2").read(), expected)
    np.testing.assert_array_equal(weight(gptq(offset=1)).read(), expected)
    wrong = weight(gptq(offset=0), checkpoint_format="gptq").read()
    np.testing.assert_allclose(wrong, expected - step(4), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "note"),
    [
        ({}, "less 1, as in v1 (gptq): no configuration"),
        ({"checkpoint_format": "gptq_v2"}, "as they are, as in gptq_v2"),
    ],
)
def test_a_note_says_how_zero_points_are_taken(config: dict[str, str], note: str) -> None:
    unpacked = unpack_gptq(checkpoint(gptq(), **config))
    assert unpacked is not None
    assert note in unpacked.notes[0]


def test_a_symmetric_layer_with_zero_points_of_the_other_version_is_refused() -> None:
    arrays = gptq()
    arrays["l.qzeros"] = np.full_like(arrays["l.qzeros"], 0x77777777)
    weight(arrays, sym=True, checkpoint_format="gptq").read()
    with pytest.raises(UsageError, match="symmetric, but zero points aren't 8"):
        weight(arrays, sym=True, checkpoint_format="gptq_v2").read()


@pytest.mark.parametrize("name", ["l.scales", "l.qweight", "l.qzeros"])
def test_planted_faults_give_other_values(name: str) -> None:
    expected = weight(gptq()).read()
    arrays = gptq()
    low, high = arrays["l.qweight"] & 0x0F0F0F0F, arrays["l.qweight"] & 0x70707070
    faults = {"l.scales": np.ones_like(arrays["l.scales"]), "l.qweight": low << 4 | high >> 4}
    faults["l.qzeros"] = arrays["l.qzeros"][::-1]
    assert np.abs(weight({**arrays, name: faults[name]}).read() - expected).max() > 0.1


def test_without_g_idx_groups_are_in_order() -> None:
    arrays = gptq()
    expected = weight(arrays).read()
    del arrays["l.g_idx"]
    np.testing.assert_array_equal(weight(arrays).read(), expected)
    np.testing.assert_array_equal(weight(arrays, group_size=SIZE).read(), expected)
    with pytest.raises(UsageError, match="of 32 or of 40 columns"):
        weight(arrays, group_size=40)


CONTRADICTIONS = {
    "there is no l.scales": {"l.scales": None},
    "there is no l.qzeros": {"l.qzeros": None},
    "shapes contradict": {"l.qzeros": np.zeros((3, 4), np.int32)},
    "contradict": {"l.g_idx": np.zeros(WIDTH + 40, np.int32)},
    "dtypes": {"l.scales": np.zeros((2, ROWS), np.int8)},
    "g_idx": {"l.g_idx": np.zeros((WIDTH, 1), np.int32)},
    "g_idx: ": {"l.g_idx": np.zeros((), np.int32)},
}


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradictory_shapes_are_refused(fault: str) -> None:
    arrays = {**gptq(), **CONTRADICTIONS[fault]}
    with pytest.raises(UsageError, match=fault):
        weight({name: array for name, array in arrays.items() if array is not None})


def test_a_group_that_is_not_there_is_refused() -> None:
    arrays = gptq()
    arrays["l.g_idx"][3] = 2
    with pytest.raises(UsageError, match="outside of the 2 groups"):
        weight(arrays).read()


@pytest.mark.parametrize(
    "config",
    [{"checkpoint_format": "marlin"}, {"checkpoint_format": []}, {"quant_method": "other"}, {"bits": "4"}],
)
def test_a_configuration_of_another_format_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="says"):
        weight(gptq(), **config)


def test_a_weight_beside_its_packed_form_is_refused() -> None:
    with pytest.raises(UsageError, match=r"two tensors for l\.weight"):
        weight({**gptq(), "l.weight": VALUES})


def test_a_checkpoint_without_such_layers_is_left_alone() -> None:
    assert unpack_gptq(checkpoint({"l.weight": VALUES, "my_qweight": VALUES})) is None


def test_rows_are_read_in_pieces() -> None:
    arrays = gptq()
    stored = checkpoint(arrays)
    longest = 0

    def read(start: int, stop: int) -> Array:
        nonlocal longest
        longest = max(longest, stop - start)
        return arrays["l.qweight"][start:stop]

    huge = StoredTensor("l.qweight", (2**40, ROWS), "int32", read)
    tensors = {**stored.tensors, "l.qweight": huge, "l.g_idx": stored_array("l.g_idx", np.zeros(8, np.int32))}
    with pytest.raises(UsageError, match="contradict"):
        unpack_gptq(type(stored)("model", "test", tensors))
    assert longest == 0
