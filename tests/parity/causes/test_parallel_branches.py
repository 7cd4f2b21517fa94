"""A port that computes parallel branches one after the other, and doesn't pass a table that a Cell is given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

pytestmark = pytest.mark.causes
WIDTH = 6


class Turned(nn.Module):
    """Is given what it multiplies with."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        return self.leave((self.enter(x) * table).tanh())  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.turned, self.layers = Turned(), nn.Sequential(nn.Linear(WIDTH, 9), nn.Tanh(), nn.Linear(9, WIDTH))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        turned = self.turned(self.norm1(x), table)
        return self.layers(self.norm2(x)) + turned + x  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start, self.block, self.end = nn.Linear(WIDTH, WIDTH), Block(), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.block(self.start(x), torch.arange(1.0, x.shape[1] + 1)[:, None].to(x)))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, like: Network) -> None:
        super().__init__()
        block = like.block
        layers = (block.norm1, block.turned.enter, block.turned.leave, block.norm2, block.layers[0], block.layers[2])
        sources = (like.start, *layers, like.end)
        self.layers = nn.ModuleList(
            nn.LayerNorm(WIDTH) if isinstance(source, nn.LayerNorm) else nn.Linear(*reversed(source.weight.shape))
            for source in sources
        )
        for layer, source in zip(self.layers, sources, strict=True):
            layer.load_state_dict(source.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        start, norm1, enter, leave, norm2, up, down, end = self.layers
        x = start(x)
        x = x + leave((enter(norm1(x)) * torch.arange(1.0, x.shape[1] + 1)[:, None].to(x)).tanh())
        return end(x + down(up(norm2(x)).tanh()))  # type: ignore[no-any-return]


def test_no_branch_is_called_left_out() -> None:
    torch.manual_seed(0)
    reference = Network()
    with torch.no_grad():
        for norm in (reference.block.norm1, reference.block.norm2):
            norm.weight += torch.randn(WIDTH) / 4
    report = parity.compare(reference, Port(reference), (torch.randn(2, 4, WIDTH),))
    assert report.failing == ["block"]
    (cause,) = report.cells["block"].causes
    assert "left out" not in cause.summary
    assert "the value passed to block.norm2 is add of" in cause.summary
