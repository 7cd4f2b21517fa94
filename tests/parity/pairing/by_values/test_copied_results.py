"""A result that a port returns in another layout than the one in which it goes on computing with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH = 4


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.query(x).tanh() * self.value(y)  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.mix = nn.Linear(3, WIDTH), nn.LayerNorm(WIDTH), Mix()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        y = self.norm(x)
        return self.mix(x + y, y), y


class Port(nn.Module):
    """Without the axis of size 1, and with another eps."""

    def __init__(self, of: Network) -> None:
        super().__init__()
        self.enter, self.scale = nn.Linear(3, WIDTH), nn.LayerNorm(WIDTH, eps=0.1)
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.load_state_dict(dict(zip(self.state_dict(), of.state_dict().values(), strict=True)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.enter(x.squeeze(1))
        y = self.scale(x)
        return (self.a(x + y).tanh() * self.b(y)).unsqueeze(1), y.unsqueeze(1)


def test_what_follows_a_wrong_result_is_right() -> None:
    torch.manual_seed(0)
    reference = Network()
    arguments = (torch.randn(2, 1, 5, 3),)
    report = parity.compare(reference, Port(reference), arguments, probe=False, diagnose_seconds=0)
    assert report.failing == ["norm"], str(report)
