"""Ports that do several times what the module does once, or have several copies of what it has once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity


class Shift(nn.Module):
    """Mixes each step with the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.key, self.gate = nn.ZeroPad2d((0, 0, 1, -1)), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        before = self.shift(x)
        result: Tensor = self.key(x + before) * torch.sigmoid(self.gate(x - before))
        return result


class ShiftPort(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k, self.g = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        def shifted() -> Tensor:
            return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)

        result: Tensor = self.k(x + shifted()) * self.g(x - shifted()).sigmoid()
        return result


def test_tensor_moved_several_times() -> None:
    """The module has a Cell for the shift, whose result all of the gradient arrives at."""
    torch.manual_seed(0)
    reference, port = Shift().eval(), ShiftPort().eval()
    port.load_state_dict(dict(zip(port.state_dict(), reference.state_dict().values(), strict=True)))
    report = parity.compare(reference, port, (torch.randn(2, 3, 4),), probe=False)
    assert report.ok, report.failing
    assert any(c.kind == "output" for c in report.cells["shift"].comparisons)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return torch.tanh(self.linear(x) + bias)


class Layers(nn.Module):
    """Passes one bias to both layers."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4))
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, self.bias)
        return x


class OwnBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.product, self.offset = nn.Linear(4, 4), nn.Parameter(torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        return (F.linear(x, self.product.weight, self.product.bias) + self.offset).tanh()


def test_copies_of_a_passed_parameter() -> None:
    """Their gradients add up to that of the module's parameter."""
    torch.manual_seed(0)
    reference, port = Layers().eval(), nn.Sequential(OwnBias(), OwnBias()).eval()
    for layer, own in zip(reference.layers, port, strict=True):
        own.load_state_dict(
            {"offset": reference.bias[None]} | {f"product.{n}": p for n, p in layer.linear.state_dict().items()}
        )
    report = parity.compare(reference, port, (torch.randn(3, 4),), probe=False)
    assert report.ok, report.failing
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.status != "not compared"}
    assert "bias" in compared
