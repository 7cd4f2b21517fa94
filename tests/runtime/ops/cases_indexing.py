"""Cases of indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)
_TABLE = _rng.standard_normal((5, 3))
_X = _rng.standard_normal((3, 4, 2))
_TOKENS = np.array([[0, 4, 4], [2, 4, 1]])
_ELEMENTS = np.array([[[3, 0], [1, 1], [0, 2]], [[2, 2], [3, 3], [1, 1]]])  # along axis 1 of _X, a part of axis 0
_DISTINCT = np.array([[[3, 0], [1, 1], [0, 2]], [[2, 2], [3, 3], [1, 1]], [[0, 0], [2, 3], [1, 2]]])
_UPDATES = _rng.standard_normal((3, 3, 2))
_COORDINATES = np.array([[[0, 1], [2, 3]], [[1, 1], [0, 1]]])
_ZERO_AND_NOT = np.array([0.0, 2.0, 3.0, 0.0, 0.5])
_FACTORS = np.array([0.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0])
_PLACES = np.array([0, 0, 1, 2, 2, 3, 1])


def _scatter_reduce(how: str, axis: int) -> Callable[..., Any]:
    return lambda x, i, u: x.scatter_reduce(axis, i, u, how, include_self=True)


def _nd(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return x[tuple(indices.unbind(-1))]


def _put(accumulate: bool) -> Callable[..., Any]:
    return lambda x, i, u: x.index_put(tuple(i.unbind(-1)), u, accumulate=accumulate)


CASES = [
    OpCase("take", (_TABLE, _TOKENS), {"axis": 0}, lambda x, i: torch.nn.functional.embedding(i, x), "embedding"),
    OpCase("take", (_X, np.array([1, 3, 1])), {"axis": 1}, lambda x, i: x.index_select(1, i), "middle"),
    OpCase("take", (_X, np.array([-1, 0])), {"axis": -1}, lambda x, i: x[..., i], "negative"),
    OpCase("take", (_X, np.array(2)), {"axis": 1}, lambda x, i: x[:, i], "scalar"),
    OpCase(
        "take", (np.arange(6), np.array([[1], [5]])), {"axis": 0}, lambda x, i: x[i], "integers", differentiable=False
    ),
    OpCase(
        "index_add",
        (_TABLE, np.array([4, 0, 4, 2]), _rng.standard_normal((4, 3))),
        {"axis": 0},
        lambda x, i, u: x.index_add(0, i, u),
        "rows",
    ),
    OpCase(
        "index_add",
        (_X, np.array([1, 1, 0]), _rng.standard_normal((3, 3, 2))),
        {"axis": 1},
        lambda x, i, u: x.index_add(1, i, u),
        "middle",
    ),
    OpCase(
        "index_add",
        (_TABLE, np.zeros(0, np.int64), np.zeros((0, 3))),
        {"axis": 0},
        lambda x, i, u: x.index_add(0, i, u),
        "none",
    ),
    OpCase("gather", (_X, _ELEMENTS), {"axis": 1}, lambda x, i: x.gather(1, i), "part"),
    OpCase("gather", (_TABLE, np.array([[-1, 0], [-3, 2]])), {"axis": 1}, lambda x, i: x.gather(1, i % 3), "negative"),
    OpCase("gather", (np.array(3.0), np.array(0)), {"axis": 0}, lambda x, i: x.gather(0, i), "scalar"),
    OpCase("scatter", (_X, _DISTINCT, _UPDATES), {"axis": 1}, lambda x, i, u: x.scatter(1, i, u), "replace"),
    OpCase(
        "scatter",
        (_X, _ELEMENTS % 3, _UPDATES[:2]),
        {"axis": 0, "reduction": "add"},
        lambda x, i, u: x.scatter_add(0, i, u),
        "add",
    ),
    OpCase(
        "scatter",
        (_TABLE, np.array([[-1, 0], [-3, -1]]), _UPDATES[:2, 0]),
        {"axis": 1, "reduction": "add"},
        lambda x, i, u: x.scatter_add(1, i % 3, u),
        "negative",
    ),
    OpCase(
        "scatter", (_X, _ELEMENTS % 3, _UPDATES[:2]), {"axis": 0, "reduction": "mul"}, _scatter_reduce("prod", 0), "mul"
    ),
    OpCase(
        "scatter",
        (_ZERO_AND_NOT, _PLACES, _FACTORS),
        {"axis": 0, "reduction": "mul"},
        _scatter_reduce("prod", 0),
        "mul_zeros",
    ),
    OpCase(
        "scatter", (_X, _ELEMENTS % 3, _UPDATES[:2]), {"axis": 0, "reduction": "max"}, _scatter_reduce("amax", 0), "max"
    ),
    OpCase(
        "scatter",
        (_ZERO_AND_NOT, _PLACES, _FACTORS),
        {"axis": 0, "reduction": "max"},
        _scatter_reduce("amax", 0),
        "max_ties",
    ),
    OpCase(
        "scatter", (_X, _ELEMENTS % 3, _UPDATES[:2]), {"axis": 0, "reduction": "min"}, _scatter_reduce("amin", 0), "min"
    ),
    OpCase("gather_nd", (_X, _COORDINATES), {}, _nd, "rows"),
    OpCase("gather_nd", (_X, np.array([[-1, 0, 1], [2, -4, 0]])), {}, _nd, "elements"),
    OpCase("scatter_nd", (_X, np.array([[0, 1], [2, -1]]), _UPDATES[0, :2]), {}, _put(False), "replace"),
    OpCase("scatter_nd", (_X, _COORDINATES, _UPDATES[:2, :2]), {"reduction": "add"}, _put(True), "add"),
    OpCase(
        "scatter_nd",
        (_X, np.array([[-1, 0, 1], [2, -4, 0], [2, 0, 1]]), np.array([1.5, -0.5, 2.0])),
        {"reduction": "add"},
        _put(True),
        "add-elements",
    ),
    OpCase("scatter_nd", (_X, np.array([[0], [-1], [0]]), _X * 2), {"reduction": "add"}, _put(True), "add-rows"),
    OpCase(
        "slice_scatter",
        (_X, _UPDATES[:, :2]),
        {"axis": 1, "start": 1, "stop": 3},
        lambda x, s: x.slice_scatter(s, 1, 1, 3),
        "middle",
    ),
    OpCase(
        "slice_scatter",
        (_X, _UPDATES[:, :2]),
        {"axis": -2, "start": 0, "stop": 4, "step": 2},
        lambda x, s: x.slice_scatter(s, 1, 0, 4, 2),
        "step_2",
    ),
]
