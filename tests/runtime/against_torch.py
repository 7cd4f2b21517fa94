"""Eager functions and Cells against torch: outputs and gradients on the same float64 numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor
from cellbridge.runtime.nn import Cell

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    """Normally distributed float64 numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def assert_as_torch(
    function: Callable[..., Any], torch_function: Callable[..., Any], *arrays: Array, rtol: float = 1e-9
) -> None:
    """`function` on Tensors gives what `torch_function` gives, and the same gradients of all floating operands."""
    positions = tuple(i for i, array in enumerate(arrays) if array.dtype.kind == "f")
    leaves = [torch.from_numpy(array.copy()).requires_grad_(i in positions) for i, array in enumerate(arrays)]
    expected = list(flat(torch_function(*leaves)))
    weights = [normal(*y.shape, seed=i) if y.is_floating_point() else None for i, y in enumerate(expected)]

    def weighted(*operands: Any) -> tuple[Any, Any]:
        results = list(flat(function(*operands)))
        assert len(results) == len(expected)
        total = sum((y * Tensor(w)).sum() for y, w in zip(results, weights, strict=True) if w is not None)
        return total, results

    total = sum((y * torch.from_numpy(w)).sum() for y, w in zip(expected, weights, strict=True) if w is not None)
    expected_gradients = torch.autograd.grad(total, [leaves[i] for i in positions], allow_unused=True)
    (_, results), gradients = ms.value_and_grad(weighted, positions, has_aux=True)(*map(Tensor, arrays))
    for y, e in zip(results, expected, strict=True):
        close(y, e, rtol)
    for i, g, e in zip(positions, gradients if len(positions) > 1 else (gradients,), expected_gradients, strict=True):
        close(g, torch.zeros_like(leaves[i]) if e is None else e, rtol)


def assert_cell_as_module(cell: Cell, module: torch.nn.Module, *arrays: Array, rtol: float = 1e-9) -> None:
    """A Cell and a module with the same Parameters in the same order give the same results and gradients."""
    parameters, torch_parameters = cell.trainable_params(), list(module.parameters())
    assert [tuple(p.shape) for p in parameters] == [tuple(t.shape) for t in torch_parameters]
    arrays_of = [t.detach().numpy() for t in torch_parameters]
    for parameter, array in zip(parameters, arrays_of, strict=True):
        parameter.set_data(Tensor(array))
    leaves = [torch.from_numpy(array.copy()).requires_grad_(array.dtype.kind == "f") for array in arrays]
    expected = list(flat(module(*leaves)))
    weights = [normal(*y.shape, seed=i) for i, y in enumerate(expected)]
    total = sum((y * torch.from_numpy(w)).sum() for y, w in zip(expected, weights, strict=True))
    expected_gradients = torch.autograd.grad(total, [x for x in leaves if x.requires_grad] + torch_parameters)

    def weighted(*operands: Any) -> tuple[Any, Any]:
        results = list(flat(cell(*operands)))
        return sum((y * Tensor(w)).sum() for y, w in zip(results, weights, strict=True)), results

    positions = tuple(i for i, array in enumerate(arrays) if array.dtype.kind == "f")
    (_, results), (of_inputs, of_weights) = ms.value_and_grad(weighted, positions, parameters, has_aux=True)(
        *map(Tensor, arrays)
    )
    for y, e in zip(results, expected, strict=True):
        close(y, e, rtol)
    gradients = [*(of_inputs if len(positions) > 1 else (of_inputs,)), *of_weights]
    for g, e in zip(gradients, expected_gradients, strict=True):
        close(g, e, rtol)


def close(actual: Tensor, expected: torch.Tensor, rtol: float = 1e-9) -> None:
    """Equal up to rounding, in shape and dtype too; the error is relative to the largest element."""
    expected_array = expected.detach().numpy()
    assert actual.shape == expected_array.shape
    assert actual.dtype == expected_array.dtype
    np.testing.assert_allclose(
        actual.asnumpy(), expected_array, rtol=rtol, atol=rtol * max(np.abs(expected_array).max(initial=0), 1)
    )


def flat(structure: Any) -> Iterator[Any]:
    """The tensors in nested tuples and lists."""
    if isinstance(structure, (tuple, list)):
        for item in structure:
            yield from flat(item)
    elif structure is not None:
        yield structure
