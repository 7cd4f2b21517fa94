"""What tensors are made of is derived: joined, divided, stacked, padded, rounded; of equal ones, names tell."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.audit.derivation import Derivation, derive
from cellbridge.parity.weights.readers.tensor import StoredCheckpoint, stored_array

ROTARY = np.arange(24).reshape(4, 2, 3).swapaxes(1, 2).reshape(-1)


def checkpoint(arrays: Mapping[str, Array]) -> StoredCheckpoint:
    """Return a checkpoint in memory."""
    return StoredCheckpoint("memory", "arrays", {name: stored_array(name, array) for name, array in arrays.items()})


def network() -> dict[str, Array]:
    """Return the parameters of three layers with experts."""
    generator = np.random.default_rng(0)

    def numbers(*shape: int) -> Array:
        return generator.normal(size=shape).astype(np.float32)

    arrays = {"emb": numbers(50, 24)}
    for n in range(3):
        for part in "qkv":
            arrays |= {f"h.{n}.{part}.weight": numbers(24, 24), f"h.{n}.{part}.bias": numbers(24)}
        arrays |= {f"h.{n}.up.weight": numbers(48, 24), f"h.{n}.down.weight": numbers(24, 48)}
        arrays |= {f"h.{n}.norm.weight": np.ones(24, np.float32), f"h.{n}.norm.bias": np.zeros(24, np.float32)}
        arrays |= {f"h.{n}.experts.{e}": numbers(16, 24) for e in range(4)}
    return arrays


def port(a: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Return a port's parameters, and what each is made of."""
    arrays = {"tok": np.concatenate([a["emb"], np.zeros((14, 24), np.float32)])}
    made_of: dict[str, tuple[str, ...]] = {"tok": ("emb",)}
    for n in range(3):
        q, k, v = (a[f"h.{n}.{part}.weight"] for part in "qkv")
        biases = (a[f"h.{n}.q.bias"][ROTARY], a[f"h.{n}.k.bias"][ROTARY], a[f"h.{n}.v.bias"])
        arrays |= {
            f"layers.{n}.qkv.kernel": np.concatenate([q[ROTARY], k[ROTARY], v]).T,
            f"layers.{n}.qkv.bias": np.concatenate(biases),
            f"layers.{n}.ff1": a[f"h.{n}.up.weight"].T,
            f"layers.{n}.ff2": a[f"h.{n}.down.weight"].astype(ml_dtypes.bfloat16),
            f"layers.{n}.ln.scale": a[f"h.{n}.norm.weight"],
            f"layers.{n}.ln.bias": a[f"h.{n}.norm.bias"],
            f"layers.{n}.experts": np.stack([a[f"h.{n}.experts.{e}"].T for e in range(4)]),
        }
        made_of |= {
            f"layers.{n}.qkv.kernel": tuple(f"h.{n}.{part}.weight" for part in "qkv"),
            f"layers.{n}.qkv.bias": tuple(f"h.{n}.{part}.bias" for part in "qkv"),
            f"layers.{n}.ff1": (f"h.{n}.up.weight",),
            f"layers.{n}.ff2": (f"h.{n}.down.weight",),
            f"layers.{n}.ln.scale": (f"h.{n}.norm.weight",),
            f"layers.{n}.ln.bias": (f"h.{n}.norm.bias",),
            f"layers.{n}.experts": tuple(f"h.{n}.experts.{e}" for e in range(4)),
        }
    return arrays, made_of


def sources(derivation: Derivation) -> dict[str, tuple[str, ...]]:
    return {name: origin.sources for name, origin in derivation.origins.items()}


def test_every_tensor_of_a_port_is_derived() -> None:
    before = network()
    after, made_of = port(before)
    result = derive(checkpoint(before), checkpoint(after))
    assert sources(result) == made_of
    assert (result.unknown, result.unused) == ([], [])
    assert result.origins["tok"].join.padding == tuple(range(50, 64))
    assert all(origin.join.unknown == () for origin in result.origins.values())
    assert all(origin.agreement.is_equal or name.endswith("ff2") for name, origin in result.origins.items())
    for name, origin in result.origins.items():
        array = origin.join.assembly.assemble(before)
        np.testing.assert_array_equal(array.astype(after[name].dtype), after[name])


def test_the_way_back_is_derived_too() -> None:
    before = network()
    after, _ = port(before)
    result = derive(checkpoint(after), checkpoint(before))
    assert (result.unknown, result.unused) == ([], [])
    assert result.origins["h.1.k.bias"].sources == ("layers.1.qkv.bias",)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_layers_are_stacked_along_any_axis(axis: int) -> None:
    before = network()
    names = [f"h.{n}.up.weight" for n in range(3)]
    after = {"scan": np.stack([before[name].T for name in names], axis)}
    result = derive(checkpoint(before), checkpoint(after))
    assert sources(result) == {"scan": tuple(names)}
    np.testing.assert_array_equal(result.origins["scan"].join.assembly.assemble(before), after["scan"])
    back = derive(checkpoint(after), checkpoint({name: before[name] for name in names}))
    assert all(each == ("scan",) for each in sources(back).values())


def test_what_comes_from_nowhere_and_what_is_not_used_is_said() -> None:
    before = network()
    after = {name: array for name, array in before.items() if name != "h.1.up.weight"}
    after["h.2.q.weight"] = np.random.default_rng(1).normal(size=(24, 24)).astype(np.float32)
    result = derive(checkpoint(before), checkpoint(after))
    assert result.unknown == ["h.2.q.weight"]
    assert result.unused == ["h.1.up.weight", "h.2.q.weight"]


def test_rows_from_nowhere_are_named() -> None:
    before = network()
    after = dict(before)
    after["emb"] = before["emb"].copy()
    after["emb"][[7, 9]] += 1.0
    result = derive(checkpoint(before), checkpoint(after))
    assert result.origins["emb"].join.unknown == (7, 9)
