"""A tensor that a port has in the module's shape for one Cell, and in its own for another."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity


class Mixture(nn.Module):
    """Both layers are given the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        rows = x.reshape(-1, 6)
        y: Tensor = x + (self.first(rows).tanh() * self.second(rows).sigmoid()).reshape(x.shape)
        return y


class Port(nn.Module):
    """The first layer alone is given rows."""

    def __init__(self, reference: Mixture) -> None:
        super().__init__()
        self.before, self.a, self.b = reference.norm, reference.first, reference.second

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        y: Tensor = x + self.a(x.reshape(-1, 6)).reshape(x.shape).tanh() * self.b(x).sigmoid()
        return y


def test_both_layers_are_judged() -> None:
    torch.manual_seed(0)
    reference = Mixture()
    report = parity.compare(reference, Port(reference), (torch.randn(2, 5, 6),))
    assert {path: cell.status for path, cell in report.cells.items()} == dict.fromkeys(
        ("", "norm", "first", "second"), "pass"
    ), str(report)
