"""What a tensor is computed from is derived with its numbers; computed wrongly, nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.audit.derivation import derive
from cellbridge.parity.weights.computed import Computed
from cellbridge.parity.weights.readers.tensor import StoredCheckpoint, stored_array

GENERATOR = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return GENERATOR.normal(size=shape).astype(np.float32)


BEFORE = {
    "conv.weight": numbers(16, 8, 3, 3),
    "conv.bias": numbers(16),
    "norm.weight": numbers(16),
    "norm.bias": numbers(16),
    "norm.running_mean": numbers(16),
    "norm.running_var": np.abs(numbers(16)) + 0.1,
    "q.weight": numbers(32, 32),
    "q.bias": numbers(32),
    "other:q.weight": numbers(32, 32),
    "ln.weight": numbers(32),
    "ln.bias": numbers(32),
    "gain": numbers(32),
    "lora_A": numbers(4, 32),
    "lora_B": numbers(32, 4),
    "direction": numbers(24, 8),
    "length": numbers(24, 1),
}
FACTORS = BEFORE["norm.weight"] / np.sqrt(BEFORE["norm.running_var"] + 1e-3)
FOLDED = BEFORE["conv.weight"] * FACTORS[:, None, None, None]
ROOT = np.float32(np.sqrt(8))
CASES = {
    "a factor": (BEFORE["q.weight"].T / ROOT, Computed("affine", ("q.weight",), (("times", 1 / np.sqrt(8)),))),
    "another sign": (-BEFORE["q.bias"], Computed("affine", ("q.bias",), (("times", -1.0),))),
    "an offset": (1 + BEFORE["gain"], Computed("affine", ("gain",), (("plus", 1.0),))),
    "rows": (BEFORE["q.weight"] * BEFORE["gain"][:, None], Computed("scaled", ("q.weight", "gain"))),
    "columns": (BEFORE["q.weight"] * BEFORE["gain"], Computed("scaled_columns", ("q.weight", "gain"))),
    "a batch norm": (
        FOLDED,
        Computed("batch_norm", ("conv.weight", "norm.weight", "norm.running_var"), (("eps", 1e-3),)),
    ),
    "a weight norm": (
        BEFORE["length"] * BEFORE["direction"] / np.linalg.norm(BEFORE["direction"], axis=1, keepdims=True),
        Computed("weight_norm", ("length", "direction")),
    ),
    "an adapter": (
        BEFORE["q.weight"] + 2 * BEFORE["lora_B"] @ BEFORE["lora_A"],
        Computed("lora", ("q.weight", "lora_B", "lora_A"), (("times", 2.0),)),
    ),
}


def origins(**after: Array) -> dict[str, tuple[str | Computed, ...]]:
    before, other = (
        StoredCheckpoint("memory", "arrays", {name: stored_array(name, array) for name, array in arrays.items()})
        for arrays in (BEFORE, after)
    )
    return {name: origin.join.assembly.sources for name, origin in derive(before, other).origins.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_computation_is_derived(name: str) -> None:
    array, computed = CASES[name]
    assert origins(result=array.astype(np.float32)) == {"result": (computed,)}


@pytest.mark.parametrize("before", ["", "q.bias"])
def test_the_bias_behind_a_folded_norm(before: str) -> None:
    moved = BEFORE["q.weight"] @ BEFORE["ln.bias"] + (BEFORE[before] if before else 0)
    derived = origins(**{"f.weight": BEFORE["q.weight"] * BEFORE["ln.weight"], "f.bias": moved})
    assert derived["f.weight"] == (Computed("scaled_columns", ("q.weight", "ln.weight")),)
    assert derived["f.bias"] == (Computed("moved_bias", ("q.weight", "ln.bias", *filter(None, [before]))),)


def test_a_mixture_of_two_checkpoints() -> None:
    mixed = np.float32(0.3) * BEFORE["q.weight"] + np.float32(0.7) * BEFORE["other:q.weight"]
    ((computed,),) = origins(result=mixed).values()
    assert isinstance(computed, Computed)
    assert (computed.form, set(computed.of)) == ("mixture", {"q.weight", "other:q.weight"})
    assert sorted(dict(computed.numbers)["weights"]) == [0.3, 0.7]  # type: ignore[arg-type]


def test_a_part_of_a_joined_tensor_is_scaled() -> None:
    scaled = Computed("affine", ("q.weight",), (("times", 1 / np.sqrt(8)),))
    assert origins(result=np.concatenate([BEFORE["q.weight"] / ROOT, -BEFORE["lora_A"]])) == {
        "result": (scaled, Computed("affine", ("lora_A",), (("times", -1.0),)))
    }


@pytest.mark.parametrize("name", CASES)
def test_another_computation_is_not(name: str) -> None:
    array = CASES[name][0].astype(np.float32)
    array[2] *= 1.001
    derived = origins(result=array)
    assert "result" not in derived or isinstance(derived["result"][0], str)  # the other rows are


@pytest.mark.parametrize("before", ["", "conv.bias"])
def test_the_bias_is_folded_too(before: str) -> None:
    bias = BEFORE[before] if before else np.zeros(16, np.float32)
    folded = (bias - BEFORE["norm.running_mean"]) * FACTORS + BEFORE["norm.bias"]
    derived = origins(**{"f.weight": FOLDED, "f.bias": folded})["f.bias"]
    of = ("norm.bias", "norm.weight", "norm.running_mean", "norm.running_var", *filter(None, [before]))
    assert derived == (Computed("batch_norm_bias", of, (("eps", 1e-3),)),)
