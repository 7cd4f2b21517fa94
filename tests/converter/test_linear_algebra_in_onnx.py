"""Linear algebra compiled and in ONNX files: values and gradients as torch's, also of what is read from the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cellbridge.runtime as ms
from cellbridge.converter import from_onnx, from_torch, to_onnx, to_torch
from cellbridge.runtime import Program, UnsupportedOperators
from cellbridge.runtime.compiled.session import run_model
from tests.converter.capturing import Function
from tests.converter.test_tables_linear_algebra import KINDS, OF_SQUARE, _matrices, _square

UNSYMMETRIC = {"eigenvalues", "eigenvectors"}
REAL_OR_COMPLEX = ["real", pytest.param("complex", marks=pytest.mark.slow)]


def _of_reals(name: str) -> Any:
    """The function, given and giving complex tensors as pairs of reals."""

    def function(*pairs: Tensor) -> tuple[Tensor, ...]:
        results = OF_SQUARE[name](*map(torch.view_as_complex, pairs))
        results = results if isinstance(results, tuple) else (results,)
        return tuple(torch.view_as_real(y.resolve_conj()) if y.is_complex() else y for y in results)

    return function


def captured(name: str, kind: str) -> tuple[torch.nn.Module, Program, list[Tensor]]:
    dtype = KINDS[kind]
    operands = [_square(dtype), _matrices(2, 4, 3, dtype=dtype)]
    complex = dtype.is_complex
    module = Function(_of_reals(name) if complex else OF_SQUARE[name])
    inputs = [torch.view_as_real(x) if complex else x for x in operands]
    return module, from_torch(module, tuple(inputs)), [x.clone().requires_grad_() for x in inputs]


def with_gradients(module: torch.nn.Module, inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    results = module(*inputs)
    outputs = list(results) if isinstance(results, (tuple, list)) else [results]
    weighted = [(y * torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).view_as(y)).sum() for y in outputs]
    return outputs, list(torch.autograd.grad(sum(weighted), inputs, allow_unused=True, materialize_grads=True))


def assert_same(actual_tensors: Any, expected_tensors: list[Tensor]) -> None:
    """Equal up to rounding; None stands for zeros."""
    for actual, expected in zip(actual_tensors, expected_tensors, strict=True):
        scale = max(1.0, expected.abs().max().item())
        actual = actual.detach() if isinstance(actual, Tensor) else 0.0 if actual is None else actual
        np.testing.assert_allclose(np.asarray(actual), expected.detach().numpy(), rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("kind", REAL_OR_COMPLEX)
@pytest.mark.parametrize("name", sorted(OF_SQUARE.keys() - UNSYMMETRIC))
@pytest.mark.every(18)
def test_values_and_gradients(name: str, kind: str) -> None:
    module, program, inputs = captured(name, kind)
    outputs, gradients = with_gradients(module, inputs)
    seeds = [np.linspace(0.5, 1.5, y.numel()).reshape(y.shape) for y in outputs]
    compiled = ms.compile(program, "cpu")
    arrays = [x.detach().numpy() for x in inputs]
    assert_same(compiled.value_and_grad(*arrays, cotangents=seeds)[1].inputs, gradients)
    model = to_onnx(program)
    names = [item.name for item in model.graph.input]
    assert_same(run_model(model, dict(zip(names, arrays, strict=True))).values(), outputs)
    if kind == "real" and name != "reflections":  # which holds tensors that are detached: a file doesn't say that
        assert_same(with_gradients(to_torch(from_onnx(model)), inputs)[1], gradients)


@pytest.mark.parametrize("name", sorted(UNSYMMETRIC))
@pytest.mark.every(2)
def test_eigenvalues_of_matrices_that_are_not_symmetric_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedOperators, match=r"op eig in .*aren't symmetric"):
        to_onnx(captured(name, "real")[1])
