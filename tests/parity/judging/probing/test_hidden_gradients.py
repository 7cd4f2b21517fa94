"""Faults that show in gradients only, and only on other inputs than the given ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from tests.parity.judging.probing.hidden_faults import FAULTS

X = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) + 0.1


class Squared(torch.autograd.Function):
    """A leaky ReLU whose backward is wrong for negative inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g, 0.2 * g)


class Clamped(nn.Module):
    """A clamp whose gradient may be zero already below its upper bound."""

    def __init__(self, strict: bool) -> None:
        super().__init__()
        self.strict = strict

    def forward(self, x: Tensor) -> Tensor:
        y = x.clamp(-2.0, 2.0)
        return torch.where(x > 1.5, y.detach(), y) if self.strict else y


class Branch(nn.Module):
    """Where the mean isn't positive, no gradient passes in the wrong one."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.right or x.mean() > 0 else (x * 2).detach()


class Frozen(nn.Module):
    """Without the gradient of the scale where the input is large."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.right = right
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where((x.abs() > 5) & (not self.right), x * self.scale.detach(), x * self.scale)


class Leaky(nn.Module):
    def __init__(self, right: bool) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0.1 * x) if self.right else Squared.apply(x)


def positive(cell: nn.Module) -> nn.Module:
    """A network that gives a Cell positive values below 2 for inputs such as `X`."""
    network = nn.Sequential(nn.Linear(6, 6), cell, nn.Linear(6, 3))
    with torch.no_grad():
        torch.manual_seed(0)
        network[0].weight.copy_(torch.rand(6, 6) / 6 + 0.02)
        network[0].bias.zero_()
        network[2].weight.copy_(torch.randn(3, 6))
        network[2].bias.zero_()
    return network


PAIRS: dict[str, tuple[Callable[[bool], nn.Module], str]] = {
    "backward for negative inputs": (Leaky, "negated|of either sign"),
    "detach in another branch": (Branch, "negated|of either sign"),
    "detach of a parameter": (Frozen, "of either sign|times 100"),
    "gradient near a bound": (lambda right: Clamped(not right), "inside at values"),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.every(4)
def test_a_gradient_that_the_inputs_hide_is_compared(name: str) -> None:
    make, probe = PAIRS[name]
    right, wrong = positive(make(True)), positive(make(False))
    assert parity.compare(right, wrong, (X,), probe=False).ok
    assert parity.compare(right, wrong, (X,), grads=False, probe=True).ok
    report = parity.compare(right, wrong, (X,), probe=True, diagnose_seconds=0)
    failures = [c for cell in report.cells.values() for c in cell.failures]
    assert "1" in report.failing, str(report)
    assert all("gradient" in c.kind and re.search(probe, c.probe) for c in failures), {c.probe for c in failures}


@pytest.mark.parametrize(
    "name",
    ["bound behind a norm", *(pytest.param(n, marks=pytest.mark.slow) for n in FAULTS if n != "bound behind a norm")],
)
def test_gradients_of_the_right_network_pass(name: str) -> None:
    (reference, _, args), (candidate, _, _) = FAULTS[name].pair(), FAULTS[name].pair()
    report = parity.compare(reference, candidate, args, probe=True)
    assert report.ok, str(report)
    assert any("with gradients on" in note for note in report.notes)


class Applying(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("reference", "candidate", "holds"),
    [
        (torch.relu, lambda x: x.clamp(min=0), True),
        (torch.relu, lambda x: torch.maximum(x, torch.zeros(())), True),
        (torch.nn.functional.hardtanh, lambda x: x.clamp(-1, 1), True),
        (torch.abs, lambda x: torch.where(x > 0, x, -x), True),
        (torch.abs, lambda x: x.square().sqrt(), False),  # NaN at 0
        (torch.relu, lambda x: torch.where(x < 0.05, x.clamp(min=0).detach(), x), False),
    ],
)
def test_gradients_at_exactly_a_bound_are_noted(reference: Any, candidate: Any, holds: bool) -> None:
    reference_network, candidate_network = positive(Applying(reference)), positive(Applying(candidate))
    report = parity.compare(reference_network, candidate_network, (X,), probe=True, diagnose_seconds=0)
    assert report.ok == holds, str(report)
    noted = [note for note in report.notes if note.startswith("gradients differ at exactly the values")]
    assert bool(noted) == holds
