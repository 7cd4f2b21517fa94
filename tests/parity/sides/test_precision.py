"""How the float64 run changes arguments of torch's functions."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from cellbridge.parity.sides.precision import map_only

Pair = namedtuple("Pair", "first second")
X = torch.ones(2)


@pytest.mark.parametrize("kind", [torch.Tensor, torch.dtype])
@pytest.mark.parametrize(
    "tree",
    [
        (),
        (X, torch.nn.Parameter(X), torch.float32, 1, None, "x", 2.0, True),
        ([X, (X, {"a": X, "b": [torch.float32]})], {}),
        Pair(X, [torch.float32]),
        OrderedDict(a=X, b=(torch.float32, slice(1, X))),
        {"a": Pair(X, OrderedDict(b=torch.float32)), "size": torch.Size([1, 2])},
    ],
    ids=str,
)
def test_it_is_tree_map_only(kind: type[Any], tree: Any) -> None:
    def changed(leaf: Any) -> Any:
        return "changed", id(leaf)

    found = map_only(kind, changed, tree)
    expected = pytree.tree_map_only(kind, changed, tree)
    assert str(found) == str(expected)
    assert type(found) is type(expected)
