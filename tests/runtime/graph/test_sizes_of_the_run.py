"""Masks as indices, `masked_select`, `nonzero` and `topk` of a K that is a tensor: sizes that only the run tells."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, ops
from cellbridge.runtime.graph import trace
from cellbridge.runtime.graph.program_runner import ProgramRunner
from cellbridge.runtime.tree import leaves

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


def written(x: Any) -> Any:
    x = x * 1
    mask = x > 0
    x[mask] = x[mask] * 3
    return x


def written_sum(x: Any) -> Any:
    x = x * 1
    x[x > 0] = x.sum()
    return x


def hardest(x: Any) -> Any:
    """The mean of the largest 70 % of what is positive."""
    k = ((x > 0).sum().astype(ms.float32) * 0.7).astype(ms.int32)
    return ops.topk(x.reshape(-1), k)[0].mean()


def in_branches(x: Any) -> Any:
    y = x[x > 0] if x.sum() > 0 else x[x < 0]
    return y * 2


def in_loop(x: Any) -> Any:
    total = x.sum() * 0
    for i in range((x > 0).sum()):
        total = total + x[x > i].sum()
    return total


def used_in_branches(x: Any) -> Any:
    count, y = (x > 0).sum(), x[x > 0]
    if x.sum() > 0:
        y = y * ops.ones((y.shape[0],)) + y
    else:
        y = ops.topk(x.reshape(-1), count)[0]
    return y


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mask": lambda x: x[x > 0] * 2,
    "mask of rows": lambda x: x[x[:, 0] > 1].sum(0),
    "mask of columns": lambda x: x[:, (x > 0).any(0)],
    "mask and int": lambda x: x[(x > 0).any(1), 1],
    "masked_select": lambda x: ops.masked_select(x, x[0] > 0) ** 2,
    "nonzero": lambda x: x.reshape(-1)[ops.nonzero((x > 0).reshape(-1)).reshape(-1)],
    "nonzero as tuple": lambda x: x[(x > 0).nonzero(as_tuple=True)],
    "topk": lambda x: ops.topk(x.reshape(-1), (x > 0).astype(ms.int32).sum())[0],
    "topk along an axis": lambda x: ops.topk(x, (x[0] > -9).sum() - 1, dim=0)[0] if x.sum() > 99 else x,
    "TopK": lambda x: ops.TopK()(x, (x[0] > 0).sum())[0],
    "written": written,
    "written sum": written_sum,
    "hardest": hardest,
    "twice": lambda x: x[x > 0] * (x * 2)[x > 0] + ops.topk(x.reshape(-1), (x > 0).sum())[0].sum(),
    "topk twice": lambda x: ops.topk(x[0], (x[0] > 0).sum())[0] * ops.topk(x[1], (x[0] > 0).sum())[0],
    "in branches": in_branches,
    "in loop": in_loop,
    "used in branches": used_in_branches,
}


@pytest.fixture(autouse=True)
def as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def same(actual: Any, expected: Any) -> None:
    for a, b in zip(leaves(actual), leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.every(6)
def test_function_and_gradient(name: str) -> None:
    function = FUNCTIONS[name]

    def total(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def squares(x: Any) -> Any:
            y = of(x)
            return (y * y).sum()

        return ms.grad(squares)

    compiled, on_tape = ms.jit(function), ms.jit(total(function))
    of_program = total(compiled)
    interpreted = ProgramRunner(trace(function, (Tensor(X),)), interpreted=True)
    for x in (X, -X, X + 2):
        same(compiled(Tensor(x)), function(Tensor(x)))
        same(interpreted.run([x]), leaves(function(Tensor(x))))
        gradient = total(function)(Tensor(x))
        same(on_tape(Tensor(x)), gradient)
        same(of_program(Tensor(x)), gradient)
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize("function", [lambda x: ops.nonzero(x > 0), lambda x: ops.argwhere(x.max() > 1)])
def test_coordinates(function: Callable[[Any], Any]) -> None:
    same(ms.jit(function)(Tensor(X)), function(Tensor(X)))
    assert ms.jit(function)(Tensor(X)).dtype == ms.int64


def test_no_element_is_found() -> None:
    compiled = ms.jit(FUNCTIONS["mask"])
    assert compiled(Tensor(-np.abs(X))).shape == (0,)
    np.testing.assert_array_equal(ms.grad(lambda x: compiled(x).sum())(Tensor(-np.abs(X))).asnumpy(), 0 * X)


def test_k_is_one_integer() -> None:
    with pytest.raises(TypeError, match="'k' must be an int, but got a Tensor of float32"):
        ms.jit(lambda x: ops.topk(x, x.sum()))(Tensor(X))
