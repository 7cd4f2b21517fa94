"""Mistakes of a conversion are found and named; a right one has no finding that something is wrong."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.audit.derivation import derive
from cellbridge.parity.weights.audit.findings import findings
from cellbridge.parity.weights.audit.findings.finding import NOTE, RANKS, WRONG, Finding, numbers_listed
from tests.parity.weights.audit.test_derivation import checkpoint, network, port

Arrays = dict[str, Array]
UP, DOWN, QKV = "layers.1.ff1", "layers.1.ff2", "layers.1.qkv.kernel"
STRIPES = np.add.outer(range(24), range(48)) % 24 == 0
K_FIRST = [*range(24, 48), *range(24), *range(48, 72)]


def with_tensor(name: str, change: Callable[[Array], Array]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {**arrays, name: change(arrays[name])}


def with_element(place: tuple[int, ...], value: float) -> Callable[[Array], Array]:
    def change(array: Array) -> Array:
        array = array.copy()
        array[place] = value
        return array

    return change


def exchanged(first: str, second: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {**arrays, first: arrays[second], second: arrays[first]}


def uniform(array: Array) -> Array:
    bound = 1 / np.sqrt(array.shape[1])
    return np.random.default_rng(3).uniform(-bound, bound, array.shape).astype(np.float32)


FAULTS: dict[str, tuple[Callable[[Arrays], Arrays], str, tuple[str, ...], str]] = {
    "left out": (lambda a: {n: t for n, t in a.items() if n != UP}, "missing", ("h.1.up.weight",), "2 others"),
    "of another layer": (
        lambda a: {**a, UP: a["layers.0.ff1"]},
        "repeated",
        ("layers.0.ff1", UP),
        "h.1.up.weight is used nowhere",
    ),
    "layers exchanged": (exchanged(UP, "layers.2.ff1"), "exchanged", (UP, "layers.2.ff1"), "h.2.up.weight"),
    "reshaped": (with_tensor(UP, lambda t: t.T.reshape(t.shape)), "reshaped", (UP,), "axes should be exchanged"),
    "q and k exchanged": (
        with_tensor(QKV, lambda t: t[:, K_FIRST]),
        "unlike the others",
        (QKV,),
        "h.1.k.weight",
    ),
    "zero": (with_tensor(UP, np.zeros_like), "zero", (UP,), "h.1.up.weight"),
    "not loaded": (with_tensor(UP, uniform), "random", (UP,), "torch's initial values of a Linear"),
    "not finite": (with_tensor(UP, with_element((3, 4), np.nan)), "not finite", (UP,), "1 element of NaN"),
    "twice": (with_tensor(UP, lambda t: 2 * t), "unlike the others", (UP,), "affine"),
    "a row off": (with_tensor("tok", lambda t: np.roll(t, 1, 0)), "rows", ("tok",), "0, 51 to 63"),
    "an element": (with_tensor(UP, with_element((3, 4), 0.0)), "rows", (UP,), "1 of 24"),
    "every row": (with_tensor(UP, lambda t: np.where(STRIPES, 0, t)), "elements", (UP,), "48 of 1152"),
    "near": (with_tensor(UP, lambda t: t + 0.1 * uniform(t)), "near", (UP,), "h.1.up.weight"),
}


def found(after: Arrays) -> list[Finding]:
    return findings(derive(checkpoint(network()), checkpoint(after)))


def test_a_right_conversion_has_no_wrong_finding() -> None:
    after, _ = port(network())
    assert [(f.rank, f.kind) for f in found(after)] == [(NOTE, "padded")]


@pytest.mark.parametrize("name", FAULTS)
def test_a_mistake_is_named(name: str) -> None:
    change, kind, tensors, words = FAULTS[name]
    wrong = [f for f in found(change(port(network())[0])) if f.rank == WRONG]
    assert (wrong[0].kind, wrong[0].tensors) == (kind, tensors)
    assert len(wrong) == 1
    assert words in f"{wrong[0].text} {wrong[0].evidence}"
    assert wrong[0].advice


def test_numbers_that_were_rounded_twice_are_told() -> None:
    after, _ = port(network())
    after[UP] = after[UP].astype(ml_dtypes.bfloat16).astype(np.float32)
    assert next((f.kind, f.tensors) for f in found(after)) == ("rounded", (UP,))


def test_the_worst_come_first() -> None:
    after, _ = port(network())
    after = FAULTS["zero"][0](after)
    ranks = [RANKS.index(f.rank) for f in found(after)]
    assert ranks == sorted(ranks)
    assert len(ranks) == 2


def test_numbers_are_written_as_ranges() -> None:
    assert numbers_listed([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7 to 8"
    assert numbers_listed(range(0, 20, 2)) == "0, 2, 4, 6 and 6 more ranges"
