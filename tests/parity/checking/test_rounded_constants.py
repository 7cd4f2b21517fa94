"""Numbers that code writes with the digits of float32: another hand's port isn't wrong for having all of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.sides.rounded_numbers import perturb_operand

SHORT, EXACT = 0.79788456, math.sqrt(2 / math.pi)


class HandWritten(torch.autograd.Function):
    """GELU by tanh with short constants in both directions, as Megatron has it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 0.5 * (1.0 + torch.tanh(SHORT * x * (1 + 0.044715 * x * x)))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,), (g,) = ctx.saved_tensors, gradients
        tanh = torch.tanh(SHORT * x * (1 + 0.044715 * x * x))
        return g * (0.5 * x * ((1 - tanh * tanh) * (SHORT + 0.1070322243 * x * x)) + 0.5 * (1 + tanh))


class Gelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return HandWritten.apply(x)  # type: ignore[no-any-return]


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(5, 6), Gelu(), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x)))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, constant: float) -> None:
        super().__init__()
        self.up, self.down, self.constant = nn.Linear(5, 6), nn.Linear(6, 4), constant

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        cubic = x + 0.044715 * x**3
        return self.down(0.5 * x * (1 + torch.tanh(self.constant * cubic)))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("constant", "holds"), [(EXACT, True), (EXACT * (1 + 2e-6), False)])
def test_numbers_may_have_the_digits_of_float32_but_not_fewer(constant: float, holds: bool) -> None:
    torch.manual_seed(0)
    reference, port = Reference(), Port(constant)
    port.up.load_state_dict(reference.first.state_dict())
    port.down.load_state_dict(reference.last.state_dict())
    report = parity.compare(reference, port, (torch.randn(3, 5),))
    assert report.ok == holds, report
    if not holds:
        assert report.failing == ["act"]


def test_only_numbers_that_may_be_rounded_ones_are_perturbed() -> None:
    for exact in (0.5, 3.0, 0.1, 1e-6, 0.044715, 1.702, EXACT, 1 / math.sqrt(3), math.inf, 2):
        assert perturb_operand(exact) == exact
    assert math.isnan(perturb_operand(math.nan))
    for rounded in (SHORT, 0.1070322243, 1.41421356, torch.tensor(0.1).item()):
        assert 0 < perturb_operand(rounded) / rounded - 1 < 2**-26
