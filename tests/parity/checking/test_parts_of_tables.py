"""Ports by another hand that hold a part of a table of positions, from the right row or from a wrong one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

LENGTH, RESERVED, WIDTH = 9, 3, 6


class Positions(nn.Embedding):
    """Has a few rows that no position uses."""

    def forward(self, positions: Tensor) -> Tensor:
        return super().forward(positions + RESERVED)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(11, WIDTH), Positions(LENGTH + RESERVED, WIDTH)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.ones_like(ids).cumsum(1) - 1
        return self.head(self.norm(self.words(ids) + self.positions(positions)))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, like: Network, first: int) -> None:
        super().__init__()
        self.w = nn.Parameter(like.words.weight.detach().clone())
        self.p = nn.Parameter(like.positions.weight.detach()[first : first + LENGTH].clone())
        self.n, self.h = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.n.load_state_dict(like.norm.state_dict())
        self.h.load_state_dict(like.head.state_dict())

    def forward(self, ids: Tensor) -> Tensor:
        return self.h(self.n(self.w[ids] + self.p[: ids.shape[1]]))  # type: ignore[no-any-return]


def compare(first: int) -> Report:
    torch.manual_seed(0)
    network = Network()
    return parity.compare(network, Port(network, first), torch.randint(0, 11, (2, 5)))


def test_the_right_part_is_the_table() -> None:
    report = compare(RESERVED)
    assert report.ok, str(report)
    assert report.cells["positions"].status == "pass"


@pytest.mark.causes
@pytest.mark.parametrize("first", [0, 1, 2])
def test_another_part_is_a_wrong_table(first: int) -> None:
    report = compare(first)
    assert report.failing == ["positions"], str(report)
    cause = report.cells["positions"].causes[0]
    shift = RESERVED - first
    assert (cause.kind, cause.attribute) == ("weight", "positions.weight")
    assert f"shifted by {shift}: row {RESERVED} is the reference's {first}" in cause.summary
    assert "(parameter" not in str(report.cells["words"].failures)
