"""A fault that a port has in each of many layers is placed in all of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity

WIDTH, INNER, LAYERS = 8, 12, 6


class Gate(nn.Module):
    """Takes values and gates out of one tensor."""

    def forward(self, x: Tensor) -> Tensor:
        value, gate = x.chunk(2, dim=-1)
        return value * F.gelu(gate)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * INNER), Gate()
        self.down = nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.gate(self.up(self.norm(x))))  # type: ignore[no-any-return]


class PortedLayer(nn.Module):
    """Has a matrix for values and one for gates, and the activation of another network."""

    def __init__(self, like: Layer | Mixing) -> None:
        super().__init__()
        self.n, self.out = nn.LayerNorm(WIDTH), nn.Linear(INNER, WIDTH)
        self.v, self.g = nn.Linear(WIDTH, INNER), nn.Linear(WIDTH, INNER)
        with torch.no_grad():
            for parameter, source in zip(
                (*self.n.parameters(), *self.out.parameters()),
                (*like.norm.parameters(), *like.down.parameters()),
                strict=True,
            ):
                parameter.copy_(source)
            for number, half in enumerate((self.v, self.g)):
                half.weight.copy_(like.up.weight.chunk(2)[number])
                half.bias.copy_(like.up.bias.chunk(2)[number])

    def forward(self, x: Tensor) -> Tensor:
        y = self.n(x)
        return x + self.out(self.v(y) * F.silu(self.g(y)))  # type: ignore[no-any-return]


def test_a_wrong_activation_in_six_layers() -> None:
    torch.manual_seed(0)
    layers = [Layer() for _ in range(LAYERS)]
    reference, candidate = nn.Sequential(*layers), nn.Sequential(*map(PortedLayer, layers))
    report = parity.compare(reference, candidate, (torch.randn(2, 5, WIDTH),))
    assert sorted(report.failing) == sorted(f"{number}.gate" for number in range(LAYERS))


class Mixing(nn.Module):
    """Computes in one Cell what its last layer is given."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(value * F.gelu(gate))  # type: ignore[no-any-return]


def test_what_only_enters_a_cell_in_six_layers() -> None:
    torch.manual_seed(0)
    layers = [Mixing() for _ in range(LAYERS)]
    reference, candidate = nn.Sequential(*layers), nn.Sequential(*map(PortedLayer, layers))
    report = parity.compare(reference, candidate, (torch.randn(2, 5, WIDTH),))
    assert sorted(report.failing) == [str(number) for number in range(LAYERS)]
    assert all(report.cells[f"{number}.down"].comparisons for number in range(LAYERS))
