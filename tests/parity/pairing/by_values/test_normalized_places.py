"""Wrong weights that are normalized: with the right ones before the sum that divides them, what follows agrees, too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

SCALE = 1.7


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.linear(x).sigmoid()
        return weights / weights.sum(-1, keepdim=True) * SCALE


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts, self.last = Gate(), nn.Linear(4, 15), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = (self.experts(x).unflatten(-1, (5, 3)) * self.gate(x).unsqueeze(-1)).sum(1)
        return self.last(y.tanh())  # type: ignore[no-any-return]


class Port(nn.Module):
    """Adds to the scores, and has no module for the gate."""

    def __init__(self, like: Mixture) -> None:
        super().__init__()
        self.g, self.e, self.l = nn.Linear(4, 5), nn.Linear(4, 15), nn.Linear(3, 3)
        for own, truth in ((self.g, like.gate.linear), (self.e, like.experts), (self.l, like.last)):
            own.load_state_dict(truth.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        weights = self.g(x).sigmoid() + 0.3
        weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights * SCALE
        y = self.e(x).view(-1, 5, 3) * weights[..., None]
        return self.l(torch.tanh(y.sum(dim=1)))  # type: ignore[no-any-return]


def test_the_normalized_weights_are_the_result() -> None:
    torch.manual_seed(0)
    reference = Mixture()
    report = parity.compare(reference, Port(reference), torch.randn(6, 4), probe=False)
    assert set(report.failing) == {"gate"}, str(report)
    assert "weights = weights * SCALE" in str(report)
