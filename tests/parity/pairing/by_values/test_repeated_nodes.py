"""Ports that compute an argument once for each time that a Cell is given it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH = 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return (self.q(query) @ self.k(key).mT).softmax(-1) @ self.v(value)  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Gives one tensor, with positions, as queries and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.attention, self.out = nn.Linear(WIDTH, WIDTH), Attention(), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = self.inner(x)
        q = k = x + positions
        return self.out(x + self.attention(q, k, x))  # type: ignore[no-any-return]


class AddedTwice(nn.Module):
    """Adds positions to queries and to keys."""

    def __init__(self, like: Encoder, scale: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.scale, attention = scale, like.attention
        own = (self.first, self.last, self.to_q, self.to_k, self.to_v)
        for layer, other in zip(own, (like.inner, like.out, attention.q, attention.k, attention.v), strict=True):
            layer.load_state_dict(other.state_dict())

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = self.first(x)
        q, k, v = self.to_q(x + positions), self.to_k(x + positions), self.to_v(x)
        return self.last(x + (q @ k.mT * self.scale).softmax(-1) @ v)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("scale", "failing"), [(1.0, []), (1.5, ["attention"])])
def test_an_argument_that_is_computed_twice(scale: float, failing: list[str]) -> None:
    torch.manual_seed(0)
    reference = Encoder()
    arguments = torch.randn(2, 5, WIDTH), torch.randn(5, WIDTH)
    report = parity.compare(reference, AddedTwice(reference, scale), arguments, probe=False)
    assert report.failing == failing, str(report)
    assert not report.reference_wrong
