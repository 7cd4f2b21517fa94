"""Checks of values are left out, and told of; guards against overflow clamp; no other branch is taken for either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch
from cellbridge.runtime.errors import ConversionError, ConversionWarning

X = torch.randn(3, 4)


class Checked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert not torch.isnan(x).any(), "no numbers"
        assert x.ndim == 2 and (x < 100).all() and (x > -100).all()  # noqa: PT018 (one check of several values)
        assert all((row < 100).all() for row in x)
        if (x > 100).any() or (x < -100).any():
            # checked already
            raise ValueError
        if not torch.isfinite(x).all():
            raise ValueError("too large")
        return x.exp()


class Halfway(nn.Module):
    """What makes its check pass isn't plain: one of the two, and not both."""

    def forward(self, x: Tensor) -> Tensor:
        assert (x > 0).all() or not (x > 0).any()
        return x.exp()


class Chosen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if (x > 0).all():
            return x
        raise ValueError("negative")


class CheckedByTorch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gaussian_nll_loss(x, x * 2, x.exp())


class Guarded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        hidden_states = x * 2
        if not torch.isfinite(hidden_states).all():
            clamp_value = torch.finfo(hidden_states.dtype).max - 1000
            hidden_states = torch.clamp(hidden_states, min=-clamp_value, max=clamp_value)

        return hidden_states.tanh()


class GuardedOtherwise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.isinf(x).any():
            bound = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-bound, max=bound)
        return x


class WithMoreInTheBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.isinf(x).any():
            bound = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-bound, max=bound)

            x = x * 2
        return x


class WithAnotherBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if not torch.isfinite(x).all():
            bound = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-bound, max=bound)
        else:
            x = x * 2
        return x


class OfNone(nn.Module):
    """Where one number is infinite and others aren't, it doesn't clamp."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.isfinite(x).any():
            bound = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-bound, max=bound)
        return x


def test_checks_are_passed_and_told_of() -> None:
    with pytest.warns(ConversionWarning, match="doesn't check the values") as records:
        program = from_torch(Checked(), (X,))
    np.testing.assert_allclose(program(X), X.exp(), rtol=1e-6)
    (warning,) = records
    assert warning.filename == __file__
    lines = str(warning.message).splitlines()[1:]
    assert [line.partition(": ")[2] for line in lines] == [
        'assert not torch.isnan(x).any(), "no numbers"',
        "assert x.ndim == 2 and (x < 100).all() and (x > -100).all()  # noqa: PT018 (one check of several values)",
        "assert all((row < 100).all() for row in x)",
        "if (x > 100).any() or (x < -100).any():",
        "if not torch.isfinite(x).all():",
    ]


def test_checks_of_torch_are_passed_and_told_of() -> None:
    with pytest.warns(ConversionWarning, match="elif torch.any"):
        program = from_torch(CheckedByTorch(), (X,))
    np.testing.assert_allclose(program(X), CheckedByTorch()(X), rtol=1e-6)
    assert "__bool__" not in vars(torch.Tensor)


@pytest.mark.parametrize("module", [Guarded(), GuardedOtherwise()])
@pytest.mark.parametrize("largest", [1.0, 3e38, float("inf"), float("nan")])
def test_a_guard_clamps_what_overflows_and_leaves_the_rest(module: nn.Module, largest: float) -> None:
    x = X.clone().requires_grad_()
    with torch.no_grad():
        x[0, 0], x[1, 1] = largest, -largest
    program = from_torch(module, (X,))
    expected = module(x)
    result, gradients = program.value_and_grad(x)
    np.testing.assert_array_equal(program(x), result)
    np.testing.assert_allclose(result, expected.detach(), rtol=1e-6)
    if np.isfinite(largest):
        expected.sum().backward()
        np.testing.assert_allclose(gradients.inputs[0], x.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [WithMoreInTheBranch, WithAnotherBranch, OfNone, Halfway, Chosen])
def test_another_branch_by_values_is_refused(kind: type[nn.Module]) -> None:
    with pytest.raises(ConversionError, match="branches on the value of a tensor"):
        from_torch(kind(), (X.abs(),))


def test_in_float16_the_bound_is_below_finite_numbers() -> None:
    arguments: tuple[Any, ...] = (X.half(),)
    with pytest.raises(ConversionError, match="branches on the value of a tensor"):
        from_torch(GuardedOtherwise(), arguments)
