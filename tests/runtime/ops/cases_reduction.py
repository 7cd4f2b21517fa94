"""Cases of reductions, of order along an axis and of cumulative ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)
_X = _rng.standard_normal((2, 3, 4))
_TIES = np.array([[1.0, 3.0, 3.0, -2.0], [0.0, -1.0, -2.0, -2.0]])
_ZEROS = np.array([[1.5, 0.0, 2.0, -0.5], [0.0, 3.0, 0.0, 1.0], [0.5, -2.0, 1.0, 4.0]])
_FLAGS = np.array([[True, False, True], [False, False, False]])
_INTEGERS = _rng.integers(-5, 6, (3, 4))

_AXES: list[tuple[str, dict[str, Any]]] = [
    ("all", {}),
    ("last", {"axes": (-1,)}),
    ("first_kept", {"axes": (0,), "keepdims": True}),
    ("two", {"axes": (0, 2)}),
    ("none", {"axes": ()}),
]


def _reduced(function: Any, attributes: dict[str, Any]) -> Any:
    """Torch's function over the same axes; for torch, empty axes mean all."""
    axes, keepdims = attributes.get("axes"), attributes.get("keepdims", False)
    if axes == ():
        return lambda x: function(x.unsqueeze(0), dim=(0,), keepdim=False)
    return lambda x: function(x, dim=tuple(range(x.ndim)) if axes is None else axes, keepdim=keepdims)


def recurrence(axis: int) -> Any:
    """y[t] = a[t] * y[t - 1] + b[t]."""

    def of(factors: Any, terms: Any) -> Any:
        y = [torch.zeros_like(terms.select(axis, 0))]
        for factor, term in zip(factors.unbind(axis), terms.unbind(axis), strict=True):
            y.append(factor * y[-1] + term)
        return torch.stack(y[1:], axis)

    return of


CASES = [
    OpCase(op, (_X,), attributes, _reduced(function, attributes), name)
    for op, function in [
        ("reduce_sum", torch.sum),
        ("reduce_mean", torch.mean),
        ("reduce_max", torch.amax),
        ("reduce_min", torch.amin),
        ("logsumexp", torch.logsumexp),
    ]
    for name, attributes in _AXES
] + [
    OpCase("reduce_sum", (_INTEGERS,), {"axes": (1,)}, lambda x: x.sum(1), "integers", differentiable=False),
    OpCase("reduce_sum", (np.zeros((0, 3)),), {"axes": (0,)}, lambda x: x.sum(0), "empty"),
    OpCase("reduce_any", (_FLAGS[:, :0],), {"axes": (1,)}, lambda x: x.any(1), "empty", differentiable=False),
    OpCase("reduce_all", (_FLAGS[:, :0],), {"axes": (1,)}, lambda x: x.all(1), "empty", differentiable=False),
    OpCase("reduce_max", (_INTEGERS,), {"axes": (1,)}, lambda x: x.amax(1), "integers", differentiable=False),
    OpCase("reduce_max", (_TIES,), {"axes": (1,)}, lambda x: x.amax(1), "ties"),
    OpCase("reduce_min", (_TIES,), {"axes": (1,)}, lambda x: x.amin(1), "ties"),
    OpCase("reduce_max", (_TIES,), {}, lambda x: x.amax(), "ties_all"),
    OpCase("reduce_prod", (_X,), {"axes": (1,)}, lambda x: x.prod(1), "one"),
    OpCase("reduce_prod", (_X,), {"axes": (0, 2), "keepdims": True}, lambda x: x.prod(0, True).prod(2, True), "two"),
    OpCase("reduce_prod", (_X,), {}, lambda x: x.prod(), "all"),
    OpCase("reduce_prod", (_ZEROS,), {"axes": (1,)}, lambda x: x.prod(1), "zeros"),
    OpCase("logsumexp", (_X + 1e4,), {"axes": (1,)}, lambda x: x.logsumexp(1), "large"),
    OpCase("variance", (_X,), {"axes": (1,)}, lambda x: x.var(1), "one"),
    OpCase("variance", (_X,), {}, lambda x: x.var(), "all"),
    OpCase(
        "variance",
        (_X,),
        {"axes": (0, 2), "correction": 0, "keepdims": True},
        lambda x: x.var((0, 2), correction=0, keepdim=True),
        "population",
    ),
    OpCase("reduce_any", (_FLAGS,), {"axes": (1,)}, lambda x: x.any(1), "axis", differentiable=False),
    OpCase("reduce_any", (_FLAGS,), {}, lambda x: x.any(), "all", differentiable=False),
    OpCase(
        "reduce_all",
        (_FLAGS,),
        {"axes": (0,), "keepdims": True},
        lambda x: x.all(0, True),
        "axis",
        differentiable=False,
    ),
    OpCase("argmax", (_TIES,), {"axis": 1}, lambda x: x.argmax(1), "ties", differentiable=False),
    OpCase("argmax", (_X,), {"axis": 0, "keepdims": True}, lambda x: x.argmax(0, True), "kept", differentiable=False),
    OpCase("argmax", (_X,), {}, lambda x: x.argmax(), "all", differentiable=False),
    OpCase("argmin", (_TIES,), {"axis": 1}, lambda x: x.argmin(1), "ties", differentiable=False),
    OpCase("argmin", (_X,), {"keepdims": True}, lambda x: x.argmin(keepdim=True), "all_kept", differentiable=False),
    OpCase(
        "searchsorted",
        (np.array([-1.0, 0.0, 0.0, 2.5]), np.array([[0.0, -3.0, 2.5], [9.0, -1.0, 1.0]])),
        {"right": False},
        torch.searchsorted,
        differentiable=False,
    ),
    OpCase(
        "searchsorted",
        (np.array([[-1.0, 0.0, 2.0], [1.0, 2.0, 3.0]]), np.array([[0.0, 5.0], [2.0, -1.0]])),
        {"right": True},
        lambda b, x: torch.searchsorted(b, x, right=True),
        "rows_right",
        differentiable=False,
    ),
    OpCase("sort", (_X,), {"axis": 1}, lambda x: x.sort(1), "ascending"),
    OpCase(
        "sort",
        (_TIES,),
        {"axis": -1, "descending": True},
        lambda x: x.sort(stable=True, dim=-1, descending=True),
        "ties",
    ),
    OpCase("topk", (_X,), {"k": 2, "axis": 1}, lambda x: x.topk(2, 1), "largest"),
    OpCase("topk", (_X,), {"k": 3, "axis": -1, "largest": False}, lambda x: x.topk(3, -1, largest=False), "smallest"),
    OpCase("cumsum", (_X,), {"axis": 1}, lambda x: x.cumsum(1), "middle"),
    OpCase("cumsum", (_INTEGERS,), {"axis": -1}, lambda x: x.cumsum(-1), "integers", differentiable=False),
    OpCase("cumprod", (_X,), {"axis": 1}, lambda x: x.cumprod(1), "middle"),
    OpCase("cumprod", (_ZEROS,), {"axis": -1}, lambda x: x.cumprod(-1), "zeros"),
    OpCase("logcumsumexp", (_X,), {"axis": 1}, lambda x: x.logcumsumexp(1), "middle"),
    OpCase("logcumsumexp", (_X * 100,), {"axis": -1}, lambda x: x.logcumsumexp(-1), "large"),
    OpCase("linear_recurrence", (_X, _X[::-1]), {"axis": 1}, recurrence(1), "middle"),
    OpCase("linear_recurrence", (_ZEROS, _ZEROS + 1), {"axis": -1}, recurrence(-1), "zeros"),
    OpCase("cummax", (_X,), {"axis": 0}, lambda x: x.cummax(0), "first"),
    OpCase("cummax", (_TIES,), {"axis": 1}, lambda x: x.cummax(1), "ties"),
    OpCase("cummin", (_X,), {"axis": -1}, lambda x: x.cummin(-1), "last"),
    OpCase("cummin", (_TIES,), {"axis": 1}, lambda x: x.cummin(1), "ties"),
]
