"""Cells to which a port gives the parameters of other Cells."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.report.report import Report

pytestmark = pytest.mark.causes

X = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.product, self.after = nn.LayerNorm(6), nn.Linear(6, 6), nn.LayerNorm(6)
        for norm in (self.before, self.after):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.product(self.before(x)).tanh())


class Stacked(nn.Module):
    """The norms in one tensor, in an order."""

    def __init__(self, network: Network, order: tuple[int, int] = (0, 1), scale: float = 1.0) -> None:
        super().__init__()
        norms = [(network.before, network.after)[number] for number in order]
        self.gains = nn.Parameter(scale * torch.stack([norm.weight.detach() for norm in norms]))
        self.offsets = nn.Parameter(torch.stack([norm.bias.detach() for norm in norms]))
        self.matrix = nn.Parameter(network.product.weight.detach().T.clone())
        self.shift = nn.Parameter(network.product.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        x = functional.layer_norm(x, (6,), self.gains[0], self.offsets[0])
        x = (x @ self.matrix + self.shift).tanh()
        return functional.layer_norm(x, (6,), self.gains[1], self.offsets[1])


def compared(**mistake: object) -> Report:
    network = Network()
    return parity.compare(network, Stacked(network, **mistake), (X,), probe=False)  # type: ignore[arg-type]


def test_norms_that_are_exchanged_are_told() -> None:
    report = compared(order=(1, 0))
    assert [cause.summary for path in ("before", "after") for cause in report.cells[path].causes] == [
        "before has the parameters of after in the candidate",
        "after has the parameters of before in the candidate",
    ]
    assert all(cause.error < 1e-11 for path in report.failing for cause in report.cells[path].causes)


def test_a_norm_that_is_scaled_has_its_own_parameters() -> None:
    report = compared(scale=2.0)
    assert not report.ok
    assert not any("has the parameters" in cause.summary for cell in report.cells.values() for cause in cell.causes)


def test_norms_in_one_tensor_are_the_same() -> None:
    assert compared().ok
