"""Small decoders of equal blocks, and memory that holds one block but not the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge.parity.jobs.out_of_core import check, division


class WrongHalf(torch.autograd.Function):
    """x to x / 2, with the gradient of x / 4."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient / 4


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)
        self.wrong = False

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        y = self.down(torch.nn.functional.silu(self.up(self.norm(x)))) * scale
        return x + (WrongHalf.apply(y) if self.wrong else y)


class Decoder(nn.Module):
    """ids [batch, length] to scores [batch, length, 11], with a table of its own and a residual around all blocks."""

    def __init__(self, blocks: int = 3, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.position = nn.Parameter(torch.linspace(-1, 1, 16 * width).reshape(16, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 11, bias=False)
        self.wrong = False

    def forward(self, ids: Tensor) -> Tensor:
        x = start = self.embed(ids) + self.position[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, scale=0.5)
        y = torch.tanh(x) + 0.1 * start
        return self.head(WrongHalf.apply(y) if self.wrong else y)


def decoder(**settings: Any) -> tuple[Decoder, tuple[Tensor]]:
    """Return a decoder with random weights, and its argument."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Decoder(**settings), (torch.randint(0, 11, (2, 5)),)


def allow_one_block(monkeypatch: pytest.MonkeyPatch) -> int:
    """Leave Python and torch out of account, and return the memory that a decoder and the judgement of a block take."""
    monkeypatch.setattr(division, "BASE", 0)
    monkeypatch.setattr(check, "BASE", -(10**8))
    return 400 * division.JUDGING_WITH_GRADIENTS + 6000
