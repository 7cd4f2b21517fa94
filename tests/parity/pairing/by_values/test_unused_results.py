"""A result that nothing takes is looked for by its numbers alone: no trial can tell its place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.pairing.by_values.crossings import Crossing
from cellbridge.parity.pairing.by_values.tried_places import TriedPlaces

WIDTH = 6


class Weighted(nn.Module):
    """Returns its weights, too, as attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.values = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.scores(x).softmax(-1)
        return weights * self.values(x), weights


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weighted, self.last = Weighted(), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.weighted(x)[0]))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Has a sigmoid for the softmax: a fault."""

    def __init__(self, like: Network) -> None:
        super().__init__()
        self.a, self.b, self.c = like.weighted.scores, like.weighted.values, like.last

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.tanh(self.a(x).sigmoid() * self.b(x)))  # type: ignore[no-any-return]


def test_no_trial_is_spent_on_a_result_that_nothing_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Crossing] = []
    place = TriedPlaces._try

    def recorded(finder: TriedPlaces, tensor: Crossing, *args: object, **options: object) -> bool:
        tried.append(tensor)
        return place(finder, tensor, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(TriedPlaces, "_try", recorded)
    torch.manual_seed(0)
    reference = Network()
    report = parity.compare(reference, Port(reference), (torch.randn(3, WIDTH),))
    assert report.failing == ["weighted"]
    assert tried
    assert all(tensor.trained for tensor in tried)
