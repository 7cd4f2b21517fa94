"""A small network, and ways to write it differently: the code of one Cell is replaced."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

X = torch.linspace(-2.0, 2.0, 3 * 5 * 4, dtype=torch.float64).reshape(3, 5, 4).sin().float()


class Block(nn.Module):
    """A residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.up = nn.Linear(4, 6)
        self.act = nn.Tanh()
        self.down = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Network(nn.Module):
    """Two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x).mean(1))


def network(**forwards: Callable[..., Any]) -> nn.Module:
    """The network, with these functions as `forward` of the Cells at these paths (`blocks_0`, `root`)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Network()
    for path, forward in forwards.items():
        cell: Any = module if path == "root" else module.get_submodule(path.replace("_", "."))
        cell.forward = types.MethodType(forward, cell)
    return module
