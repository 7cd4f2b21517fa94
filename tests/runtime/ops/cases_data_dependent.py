"""Cases of the ops whose result's size depends on the elements."""

from __future__ import annotations

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

RNG = np.random.default_rng(0)
SPARSE = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]])
REPEATED = np.array([3.0, 1.0, 3.0, 2.0, 1.0, 1.0])
ROWS = np.array([[1, 2], [0, 1], [1, 2], [0, 1], [0, 0]])


def unique_with_places(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    first = torch.stack([(x.flatten() == value).nonzero()[0, 0] for value in values])
    return values, first, inverse.flatten(), counts


CASES = [
    OpCase("read_sizes", (np.array([3, 4]),), {"symbols": ("a", "b")}, lambda x: x, differentiable=False),
    OpCase("read_sizes", (np.array(3),), {"symbols": ("a",)}, lambda x: x, "scalar", differentiable=False),
    OpCase("nonzero", (SPARSE,), {"symbols": ("c",)}, torch.nonzero, differentiable=False),
    OpCase("nonzero", (SPARSE > 0,), {"symbols": ("c",)}, torch.nonzero, "mask", differentiable=False),
    OpCase("nonzero", (np.zeros((2, 3)),), {"symbols": ("c",)}, torch.nonzero, "none", differentiable=False),
    OpCase("nonzero", (np.array(2.0),), {"symbols": ("c",)}, torch.nonzero, "scalar", differentiable=False),
    OpCase("unique", (REPEATED,), {"symbols": ("c",)}, unique_with_places, differentiable=False),
    OpCase("unique", (ROWS,), {"symbols": ("c",)}, unique_with_places, "of_a_matrix", differentiable=False),
    OpCase("unique", (ROWS,), {"symbols": ("c",), "axis": 0}, name="rows", differentiable=False),
    OpCase("unique", (REPEATED,), {"symbols": ("c",), "sorted": False}, name="as_they_come", differentiable=False),
    OpCase("unique", (SPARSE > 0,), {"symbols": ("c",)}, unique_with_places, "bool", differentiable=False),
]
