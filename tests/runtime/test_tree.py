"""Nested arguments and results: flattened, rebuilt, matched and written as JSON."""

from __future__ import annotations

import json
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.tree import TENSOR, Structure, flatten, match, unflatten

Point = namedtuple("Point", "x y")
A, B, C = np.zeros(1), np.ones(2), np.full(3, 2.0)

NESTED = [A, (A, [B, None], 3), {"b": B, "a": {"c": C}}, Point(A, "mode"), ((), [], {}), {1: A, ("k", 2): B}]


@pytest.mark.parametrize("nested", NESTED, ids=str)
def test_flat_and_back(nested: Any) -> None:
    leaves, structure = flatten(nested)
    rebuilt = unflatten(structure, leaves)
    assert str(rebuilt) == str(nested)
    assert all(a is b for a, b in zip(flatten(rebuilt)[0], leaves, strict=True))
    assert len(structure.paths()) == len(leaves)
    assert match(structure, nested) == leaves


@pytest.mark.parametrize("nested", NESTED, ids=str)
def test_json_and_back(nested: Any) -> None:
    structure = flatten(nested)[1]
    assert Structure.from_json(json.loads(json.dumps(structure.to_json()))) == structure


@pytest.mark.parametrize("written", [None, 3, "leaf", [], {}, {"set": []}, {"tuple": ["leaf"]}])
def test_what_is_no_structure_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="not a structure"):
        Structure.from_json(written)


def test_paths() -> None:
    assert flatten(({"m": (A, 1, B)}, C))[1].paths("out") == ["out[0]['m'][0]", "out[0]['m'][2]", "out[1]"]


def test_leaves_must_be_as_many() -> None:
    with pytest.raises(ValueError, match=r"needed 1 leaves for .*, given 2"):
        unflatten(TENSOR, [A, B])


def test_keys_may_stand_in_any_order() -> None:
    assert match(flatten({"a": A, "b": B})[1], {"b": B, "a": A}) == [A, B]


def test_an_object_is_matched_by_its_attributes() -> None:
    expected = Structure("dict", (TENSOR, TENSOR), ("b", "a"), "Batch")
    assert match(expected, SimpleNamespace(a=A, b=B, mask=None)) == [B, A]
    assert match(expected, {"a": A, "b": B}) == [B, A]
    with pytest.raises(UsageError, match=r"needed the keys \['a', 'b'\], given \['a', 'b', 'mask'\]"):
        match(expected, SimpleNamespace(a=A, b=B, mask=C))


@pytest.mark.parametrize(
    ("captured", "given", "message"),
    [
        ((A,), (3.0,), r"argument \[0\]: needed a tensor, given float"),
        ((2,), (3,), r"argument \[0\]: the program was captured with 2, given 3; capture it again"),
        ((2,), (A,), r"captured with 2, given a tensor"),
        ((A, B), (A,), "needed 2 values, given 1"),
        ((A, B), A, "needed 2 values, given ndarray"),
        ({"a": A}, {"b": A}, r"needed the keys \['a'\], given \['b'\]"),
        ({"a": A}, (A,), r"needed the keys \['a'\], given tuple"),
        (({"a": [A, A]},), ({"a": [A, None]},), r"argument \[0\]\['a'\]\[1\]: needed a tensor, given NoneType"),
    ],
)
def test_what_does_not_match_is_named(captured: Any, given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        match(flatten(captured)[1], given)
