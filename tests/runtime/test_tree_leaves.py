"""Nested tuples, lists and dicts: their leaves, and the same structure with others."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.runtime import Tensor
from cellbridge.runtime.tree import leaves, leaves_of, map_leaves, replace_leaves

Point = namedtuple("Point", "x y")
structures = st.recursive(
    st.integers(), lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
)


@pytest.mark.slow
@given(structures)
def test_a_structure_is_its_leaves_and_its_form(structure: Any) -> None:
    numbers = leaves(structure)
    assert all(isinstance(leaf, int) for leaf in numbers)
    assert map_leaves(lambda leaf: leaf, structure) == structure
    assert leaves(map_leaves(lambda leaf: leaf + 1, structure)) == [leaf + 1 for leaf in numbers]


def test_types_and_order_are_kept() -> None:
    a, b, c = (Tensor([float(i)]) for i in range(3))
    structure = OrderedDict(z=Point(a, "text"), y=[b, (c, 3)])
    assert all(x is y for x, y in zip(leaves_of(structure, Tensor), (a, b, c), strict=True))
    replaced = replace_leaves(structure, Tensor, iter("abc"))
    assert replaced == OrderedDict(z=Point("a", "text"), y=["b", ("c", 3)])
    assert type(replaced) is OrderedDict
    assert type(replaced["z"]) is Point


def test_dicts_of_other_classes_and_lists_with_attributes_stay_what_they_are() -> None:
    class Named(list[Any]):
        name = "none"

    named = Named([1])
    named.name = "first"
    mapped_list = map_leaves(lambda leaf: leaf + 1, named)
    assert (type(mapped_list), mapped_list, mapped_list.name) == (Named, [2], "first")
    assert named == [1]
    groups = map_leaves(lambda leaf: leaf + 1, defaultdict(list, {"a": 1}))
    assert groups == {"a": 2}
    assert groups["b"] == []
    counts = map_leaves(lambda leaf: leaf, Counter("aab"))
    assert type(counts) is Counter
    assert counts == {"a": 2, "b": 1}
