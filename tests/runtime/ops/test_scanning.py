"""Cumulative ops along long, symbolic and empty axes: in linear memory, as exact as torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime.ir.dims import symbol
from cellbridge.runtime.ops import scanning
from tests.runtime.building import build

LONG = 20_000
OPS: dict[str, tuple[Callable[[Any], Any], Callable[[torch.Tensor], Any]]] = {
    "cumsum": (lambda x: scanning.cumsum(x, axis=0), lambda x: x.cumsum(0)),
    "cumprod": (lambda x: scanning.cumprod(x, axis=0), lambda x: x.cumprod(0)),
    "logcumsumexp": (lambda x: scanning.logcumsumexp(x, axis=0), lambda x: x.logcumsumexp(0)),
    "cummax": (lambda x: scanning.cummax(x, axis=0), lambda x: x.cummax(0)),
    "cummin": (lambda x: scanning.cummin(x, axis=0), lambda x: x.cummin(0)),
}


def results(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.every(3)
def test_values_and_gradients_along_a_long_axis_are_torch_s(name: str) -> None:
    function, torch_function = OPS[name]
    x = (1 + 1e-3 * np.random.default_rng(0).standard_normal((LONG, 2))).astype(np.float32)
    tensor = torch.from_numpy(x).requires_grad_()
    expected = results(torch_function(tensor))
    g = np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    expected[0].backward(torch.from_numpy(g))
    assert tensor.grad is not None
    slope = tensor.grad.numpy()
    program = build(function, x.shape)
    for side in (program, ms.compile(program, "cpu")):
        values, gradients = side.value_and_grad(x, cotangents=[g])
        for value, e in zip(results(values), expected, strict=True):
            np.testing.assert_allclose(value, e.detach().numpy(), rtol=2e-6)
        np.testing.assert_allclose(gradients.inputs[0], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize("name", OPS)
def test_an_axis_may_be_symbolic_and_empty(name: str) -> None:
    compiled = ms.compile(build(OPS[name][0], (symbol("n"), symbol("m"))), "cpu")
    for shape in ((0, 3), (1, 3), (5, 3), (5, 0)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for value, e in zip(results(compiled(x)), results(OPS[name][1](torch.from_numpy(x))), strict=True):
            np.testing.assert_allclose(value, e.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", OPS)
def test_other_axes_may_be_empty(name: str) -> None:
    op = getattr(scanning, name)
    compiled = ms.compile(build(lambda x: op(x, axis=1), (symbol("n"), 4)), "cpu")
    for value in results(compiled(np.zeros((0, 4), np.float32))):  # where ONNX Runtime ended the process
        assert value.shape == (0, 4)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(
    "elements",
    [
        [1.0, np.nan, 2.0, np.nan, 0.0],
        [-np.inf, -np.inf, 1.0],
        [np.inf, 1.0, 1.0, np.inf],
        [2.0, -np.inf, 0.0, -0.0],
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_and_infinity_compiled_as_in_torch(name: str, elements: list[float], dtype: str) -> None:
    x = np.array(elements, dtype)
    compiled = ms.compile(build(OPS[name][0], x.shape, dtype=dtype), "cpu")
    for value, e in zip(results(compiled(x)), results(OPS[name][1](torch.from_numpy(x))), strict=True):
        np.testing.assert_allclose(value, e.numpy(), rtol=2e-3 if dtype == "float16" else 1e-6)
