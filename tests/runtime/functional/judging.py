"""Torch as the judge of operators: outputs, and gradients under a drawn output gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cellbridge.runtime import Tensor, grad
from cellbridge.runtime.ir.types import is_floating

Array = np.ndarray[Any, Any]


def require_agreement(
    function: Callable[..., Any],
    torch_function: Callable[..., Any],
    *arrays: Array,
    gradients: bool = True,
    rtol: float = 1e-9,
    atol: float = 1e-11,
) -> None:
    """Raise `AssertionError` unless `function` on tensors gives what `torch_function` gives in torch.

    Args:
        function: function of tensors that returns one, or a tuple or list of them.
        torch_function: the same in torch.
        arrays: operands; the gradients of those of float64 are compared.
        gradients: whether gradients are compared.
        rtol: largest relative error.
        atol: largest absolute error.
    """
    leaves = [torch.tensor(a, requires_grad=gradients and is_floating(a.dtype)) for a in arrays]
    expected = _several(torch_function(*leaves))
    actual = _several(function(*(Tensor(a) for a in arrays)))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == tuple(e.shape)
        np.testing.assert_allclose(a.asnumpy(), e.detach().numpy(), rtol=rtol, atol=atol)
    positions = tuple(i for i, a in enumerate(arrays) if is_floating(a.dtype))
    weights = [np.asarray(np.random.default_rng(i).standard_normal(tuple(e.shape))) for i, e in enumerate(expected)]
    flowing = [i for i, e in enumerate(expected) if e.requires_grad]
    if not gradients or not flowing:
        return
    torch.autograd.backward([(expected[i] * torch.from_numpy(weights[i])).sum() for i in flowing])

    def weighted(*xs: Any) -> tuple[Any, ...]:
        outputs = _several(function(*xs))
        return tuple(outputs[i] * Tensor(weights[i]) for i in flowing)

    actual_gradients = grad(weighted, positions)(*(Tensor(a) for a in arrays))
    for i, g in zip(positions, actual_gradients if len(positions) > 1 else (actual_gradients,), strict=True):
        expected_gradient = leaves[i].grad if leaves[i].grad is not None else torch.zeros_like(leaves[i])
        np.testing.assert_allclose(g.asnumpy(), expected_gradient.numpy(), rtol=rtol, atol=atol)


def _several(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
