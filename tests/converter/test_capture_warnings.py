"""What a program can't hold of a module, and is told of in a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter.capture.export import from_torch
from cellbridge.runtime import ConversionError
from tests.converter.capturing import Function

X = torch.linspace(-1, 2, 6).reshape(2, 3)


def test_an_input_changed_in_place_is_left_as_it_is() -> None:
    def changing(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(2).add_(y)
        return x, x.sum() - y

    x, y = X.clone(), X.flip(0)
    with pytest.warns(
        UserWarning, match="changes its input 'args_0' in place; the program doesn't change it"
    ) as records:
        program = from_torch(Function(changing), (x, y))
    assert len(records) == 1
    assert torch.equal(x, X)
    given = X.numpy().copy()
    results = program(given, y)
    np.testing.assert_array_equal(given, X.numpy())
    for actual, expected in zip(results, changing(X.clone(), y), strict=True):
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6)


class CountsCalls(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.inner.calls = 0

    def forward(self, x):
        self.inner.calls += 1
        return self.inner(x) * self.inner.calls


def test_a_number_that_forward_changes_is_told():
    module = CountsCalls()
    with pytest.warns(UserWarning, match=r"inner\.calls \(from 0 to 1\)"):
        from_torch(module, (torch.ones(1, 2),))
    assert module.inner.calls == 0


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return -g


def test_a_backward_written_by_hand_is_captured() -> None:
    program = from_torch(Function(Reversed.apply), (X,))
    outputs, grads = program.value_and_grad(X.numpy())
    np.testing.assert_allclose(outputs, 2 * X.numpy())
    np.testing.assert_array_equal(grads.inputs[0], -np.ones((2, 3)))
    leaf = X.clone().requires_grad_()
    Reversed.apply(leaf).sum().backward()
    assert leaf.grad is not None
    assert (leaf.grad == -1).all(), "torch's own call is as it was"


def test_backward_hooks_are_told() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    module[0].register_forward_hook(lambda module, args, output: output * 2)
    module[1].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
    module[2].bias.register_hook(lambda gradient: gradient * 2)
    with pytest.warns(
        UserWarning, match=r"backward hooks aren't captured, those of 1, 2\.bias: the program's"
    ) as records:
        program = from_torch(module, (X,))
    assert len(records) == 1
    np.testing.assert_allclose(program(X.numpy()), module(X).detach().numpy(), rtol=1e-5)


def test_a_checkpoint_is_not_told() -> None:
    def checkpointed(x: Tensor) -> Any:
        return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        from_torch(Function(checkpointed), (X,))


class Caches(nn.Module):
    """Makes a table for the length that it is called with, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.table.shape[0] != x.shape[-1]:
            self.table = torch.arange(x.shape[-1], dtype=x.dtype)
        return x * self.table


def test_a_buffer_that_the_first_call_makes_is_told() -> None:
    with pytest.raises(ConversionError, match="call the module once before"):
        from_torch(Caches(), (X,))
    module = nn.Sequential(Caches())
    with pytest.warns(UserWarning, match=r"replaces buffers, 0.table \(of shape \[3\]\): call the module once before"):
        program = from_torch(module, (X,))
    module(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        second_program = from_torch(module, (X,))
    for captured in (program, second_program):
        np.testing.assert_array_equal(captured(X.numpy()), module(X).numpy())
