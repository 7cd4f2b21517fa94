"""Ports that use parameters as they are, of which the reference computes weights: gains of 1 + w without the 1."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH = 6


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * (1.0 + self.weight)


class Scores(nn.Module):
    """The product of two norms: with one of them right, nothing that follows is."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.q_norm, self.k_norm = Norm(), Norm()

    def forward(self, x: Tensor) -> Tensor:
        return (self.q_norm(self.query(x)) @ self.k_norm(self.key(x)).mT).softmax(-1) @ x


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores, self.last = Scores(), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.scores(x))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, like: Network, more: float) -> None:
        super().__init__()
        self.q, self.k, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        for own, truth in ((self.q, like.scores.query), (self.k, like.scores.key), (self.out, like.last)):
            own.load_state_dict(truth.state_dict())
        self.a, self.b = (
            nn.Parameter(norm.weight.detach() + more) for norm in (like.scores.q_norm, like.scores.k_norm)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k = (F.rms_norm(y, (WIDTH,), w, 1e-6) for y, w in ((self.q(x), self.a), (self.k(x), self.b)))
        return self.out(F.softmax(q @ k.transpose(1, 2), -1) @ x)  # type: ignore[no-any-return]


def compared(more: float) -> Report:
    torch.manual_seed(0)
    reference = Network()
    return parity.compare(reference, Port(reference, more), torch.randn(2, 5, WIDTH), probe=False)


def test_the_cells_that_compute_weights_are_accused() -> None:
    report = compared(more=0.0)
    assert set(report.failing) == {"scores.q_norm", "scores.k_norm"}, str(report)


@pytest.mark.slow
def test_right_weights_hold() -> None:
    assert compared(more=1.0).ok
