"""Weights that bitsandbytes packed come back within a step."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.packed.bitsandbytes import MAPS, unpack_bitsandbytes
from cellbridge.parity.weights.readers.tensor import StoredTensor
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.packing import checkpoint, random_values

SHAPE = (9, 50)  # the last block is cut off, and a row begins within a block
VALUES = random_values(*SHAPE)
SIZE, NESTED_SIZE = 64, 4
STATE = "l.weight.quant_state.bitsandbytes__"


def packed(kind: str = "nf4", nested: bool = False, **changes: Any) -> dict[str, Array]:
    numbers = VALUES.reshape(-1)
    blocks = [numbers[k : k + SIZE] for k in range(0, numbers.size, SIZE)]
    absmax = np.array([np.abs(block).max() for block in blocks], np.float32)
    state: dict[str, Any] = {"quant_type": kind, "blocksize": SIZE, "dtype": "float16", "shape": list(SHAPE)}
    arrays = {"l.weight.absmax": absmax, "l.weight.quant_map": MAPS[kind]}
    if nested:
        offset = float(absmax.mean())
        rest = np.pad(absmax - offset, (0, -absmax.size % NESTED_SIZE)).reshape(-1, NESTED_SIZE)
        largest = np.abs(rest).max(axis=1).astype(np.float32)
        table = np.linspace(-1, 1, 256, dtype=np.float32)
        places = np.abs((rest / largest[:, None]).reshape(-1)[: absmax.size, None] - table).argmin(axis=1)
        arrays["l.weight.absmax"] = places.astype(np.uint8)
        arrays |= {"l.weight.nested_absmax": largest, "l.weight.nested_quant_map": table}
        state |= {"nested_blocksize": NESTED_SIZE, "nested_dtype": "float32", "nested_offset": offset}
    codes = [
        int(np.abs(value / top - MAPS[kind]).argmin())
        for block, top in zip(blocks, absmax, strict=True)
        for value in block
    ]
    octets = [high << 4 | low for high, low in zip(codes[::2], codes[1::2], strict=True)]
    text = json.dumps(state | changes).encode()
    arrays[f"{STATE}{kind}"] = np.frombuffer(text, np.uint8)
    return {"l.weight": np.array(octets, np.uint8)[:, None], **arrays}


def weight(arrays: dict[str, Array]) -> StoredTensor:
    unpacked = unpack_bitsandbytes(checkpoint(arrays))
    assert unpacked is not None
    assert list(unpacked.tensors) == ["l.weight"]
    return unpacked.tensors["l.weight"]


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True])
def test_values_come_back_within_a_step(kind: str, nested: bool) -> None:
    tensor = weight(packed(kind, nested))
    assert (tensor.name, tensor.shape, tensor.dtype) == ("l.weight", SHAPE, f"bitsandbytes {kind}")
    values = tensor.read()
    gap = np.diff(np.sort(MAPS[kind])).max() / 2
    assert np.abs(values - VALUES).max() < (gap + 0.02) * np.abs(VALUES).max()
    np.testing.assert_array_equal(np.concatenate([tensor.read_rows(k, k + 1) for k in range(SHAPE[0])]), values)


def test_bytes_may_be_stored_as_another_dtype() -> None:
    arrays = packed()
    octets = np.append(arrays["l.weight"].reshape(-1), np.uint8(0)).view(ml_dtypes.bfloat16)[:, None]
    np.testing.assert_array_equal(weight({**arrays, "l.weight": octets}).read(), weight(arrays).read())


@pytest.mark.parametrize("fault", ["nibbles", "absmax", "offset", "type"])
def test_planted_faults_give_other_values(fault: str) -> None:
    arrays = packed(nested=True)
    if fault == "nibbles":
        arrays["l.weight"] = arrays["l.weight"] << 4 | arrays["l.weight"] >> 4
    elif fault == "absmax":
        arrays["l.weight.nested_absmax"] = np.ones_like(arrays["l.weight.nested_absmax"])
    elif fault == "offset":
        arrays = packed(nested=True, nested_offset=0.0)
    else:
        arrays = packed("fp4", nested=True)
        state = json.dumps(json.loads(bytes(arrays.pop(f"{STATE}fp4"))) | {"quant_type": "nf4"}).encode()
        arrays |= {f"{STATE}nf4": np.frombuffer(state, np.uint8), "l.weight.quant_map": MAPS["nf4"]}
    assert np.abs(weight(arrays).read() - weight(packed(nested=True)).read()).max() > 0.5


HUGE = 10**400
CONTRADICTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it can't have the shape": ({"shape": [9, 52]}, {}),
    "in blocks of 32": ({"blocksize": 32}, {}),
    r"says shape=\[9, 0\]": ({"shape": [9, 0]}, {}),
    "says shape=None": ({"shape": None}, {}),
    "shape=.*1000": ({"shape": [HUGE]}, {}),
    "blocksize=70000": ({"blocksize": 70000}, {}),
    "blocksize=True": ({"blocksize": True}, {}),
    "quant_type='fp4'": ({"quant_type": "fp4"}, {}),
    "nested scales": ({"nested_offset": HUGE}, {}),
    "of nested": ({"nested_offset": float("nan")}, {}),
    "scales": ({"nested_blocksize": 64}, {"l.weight.nested_absmax": None}),
    r"there is no l\.weight\.absmax": ({}, {"l.weight.absmax": None}),
    r"no l\.weight\.quant_map": ({}, {"l.weight.quant_map": None}),
    "there is no l.weight beside": ({}, {"l.weight": None}),
    "there is no quant_state": ({}, {f"{STATE}nf4": None}),
    "isn't JSON": ({}, {f"{STATE}nf4": np.frombuffer(b"[" * 40000, np.uint8)}),
    "isn't an object": ({}, {f"{STATE}nf4": np.frombuffer(b"[]", np.uint8)}),
    "isn't a text": ({}, {f"{STATE}nf4": np.zeros(1 << 17, np.uint8)}),
    "absmax has another dtype": ({}, {"l.weight.absmax": np.zeros(8, np.float32)}),
    "shapes contradict": ({}, {"l.weight.nested_absmax": np.zeros(3, np.float32)}),
    "can't be in that dtype": ({}, {"l.weight": np.zeros((225, 1), np.int64)}),
    "of the type 'nf3'": ({}, {f"{STATE}nf3": np.zeros(2, np.uint8)}),
}


@pytest.mark.parametrize("fault", CONTRADICTIONS)
def test_contradictions_are_refused(fault: str) -> None:
    changes, tensors = CONTRADICTIONS[fault]
    arrays = {**packed(nested=True, **changes), **tensors}
    with pytest.raises(UsageError, match=fault):
        weight({name: array for name, array in arrays.items() if array is not None})


def test_a_map_that_the_package_would_not_use_is_refused() -> None:
    with pytest.raises(UsageError, match="quant_map isn't that of nf4"):
        weight({**packed(), "l.weight.quant_map": MAPS["nf4"][::-1].copy()}).read()


def test_rows_of_8_bits_have_a_scale_each() -> None:
    largest = np.abs(VALUES).max(axis=1)
    codes = np.rint(VALUES / largest[:, None] * 127).astype(np.int8)
    arrays = {"l.weight": codes, "l.SCB": largest.astype(np.float32), "l.weight_format": np.uint8([0])}
    tensor = weight(arrays)
    assert (np.abs(tensor.read() - VALUES) < 0.51 * largest[:, None] / 127).all()
    assert tensor.dtype == "bitsandbytes int8"
    with pytest.raises(UsageError, match="stored in tiles"):
        weight({**arrays, "l.weight_format": np.uint8([2])})
    with pytest.raises(UsageError, match="shapes contradict"):
        weight({**arrays, "l.SCB": largest[1:]})
