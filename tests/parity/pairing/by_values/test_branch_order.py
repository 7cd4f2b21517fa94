"""Branches of a block that a port computes in another order, and other Cells in which nothing is moved."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.pairing.by_values import fitting
from cellbridge.parity.pairing.by_values.moved_cells import Moves, find_moves


class Branch(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(6, width), nn.Linear(width, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.norm(self.down(torch.relu(self.up(x))))
        return result


class Block(nn.Module):
    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)
        self.branches = nn.ModuleList(Branch(width) for width in widths)

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.first(x), torch.zeros(())
        for branch in self.branches:
            total = total + branch(x)
        result: Tensor = self.last(torch.tanh(total))
        return result


class BlockOfPort(nn.Module):
    """The same, which computes the last branch first."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        layers = copy.deepcopy(block)
        self.i, self.o = layers.first, layers.last
        self.u, self.d, self.n = (
            nn.ModuleList(getattr(branch, name) for branch in reversed(layers.branches))
            for name in ("up", "down", "norm")
        )

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.i(x), torch.zeros(())
        for up, down, norm in zip(self.u, self.d, self.n, strict=True):
            total = norm(down(up(x).relu())) + total
        result: Tensor = self.o(total.tanh())
        return result


def test_untrained_norms_of_branches_in_another_order_are_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[Moves] = []

    def recorded(*args: Any) -> Moves:
        moves.append(find_moves(*args))
        return moves[-1]

    monkeypatch.setattr(fitting, "find_moves", recorded)
    torch.manual_seed(0)
    reference = nn.Sequential(Block(7, 9), Block(8, 10), nn.Linear(6, 3)).eval()
    port = nn.Sequential(*map(BlockOfPort, reference[:2]), copy.deepcopy(reference[2])).eval()
    with torch.no_grad():
        port[0].i.weight.mul_(1.3)
    report = parity.compare(reference, port, (torch.randn(4, 6),))
    assert report.failing == ["0.first"], str(report)
    assert [move.cells for move in moves] == [frozenset()]


class Scaled(nn.Module):
    """Multiplies by a parameter of its own what it gives to the layers in it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(6))
        self.up, self.down = nn.Linear(6, 9), nn.Linear(9, 6)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(self.up(x * self.scale).relu().square())
        return result


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(6, 6), Scaled()

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        result: Tensor = x + self.inner(x)
        return result


class ResidualOfPort(nn.Module):
    """The same without the square: a fault."""

    def __init__(self, like: Residual) -> None:
        super().__init__()
        layers = copy.deepcopy(like)
        self.f, self.s, self.i, self.o = layers.first, layers.inner.scale, layers.inner.up, layers.inner.down

    def forward(self, x: Tensor) -> Tensor:
        x = self.f(x)
        result: Tensor = x + self.o(self.i(x * self.s).relu())
        return result


def test_a_cell_that_uses_a_parameter_before_the_cells_in_it_is_not_moved() -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(Residual(), nn.Linear(6, 3))
    port = nn.Sequential(OrderedDict(block=ResidualOfPort(reference[0]), last=copy.deepcopy(reference[1])))
    report = parity.compare(reference, port, (torch.randn(4, 6),))
    assert report.failing == ["0.inner"], str(report)
