"""How the float64 run changes arguments of torch's functions."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from cellbridge.parity.sides.precision import in_double

Pair = namedtuple("Pair", "first second")
X = torch.ones(2)


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
def test_tensors_and_dtypes_are_double(tree: Any) -> None:
    def double(leaf: Any) -> Any:
        return torch.float64 if isinstance(leaf, torch.dtype) else leaf.double()

    double_tree = in_double(tree)
    expected = pytree.tree_map_only((torch.Tensor, torch.dtype), double, tree)
    assert str(double_tree) == str(expected)
    assert "float32" not in str(double_tree)
    assert type(double_tree) is type(expected)
