"""A wrong weight in what is computed from parameters alone, such as the norm of a table of positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity

WIDTH, LENGTH = 6, 5


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        scores = (self.key(x) @ table.T).softmax(-1)
        return x + self.out(scores @ table)  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(LENGTH, WIDTH)
        self.norm, self.norm_of_table = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        for norm in (self.norm, self.norm_of_table):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        x, table = self.norm(x), self.norm_of_table(self.table.weight)
        for layer in self.layers:
            x = layer(x, table)
        return x


class Port(nn.Module):
    def __init__(self, network: Network, *, is_wrong: bool = False) -> None:
        super().__init__()
        source = network.norm if is_wrong else network.norm_of_table
        self.positions, self.first = nn.Parameter(network.table.weight.detach().clone()), network.norm
        self.gain, self.shift = (nn.Parameter(p.detach().clone()) for p in (source.weight, source.bias))
        self.blocks = nn.ModuleList(nn.ModuleList([layer.key, layer.out]) for layer in network.layers)

    def forward(self, inputs: Tensor) -> Tensor:
        x, positions = self.first(inputs), F.layer_norm(self.positions, (WIDTH,), self.gain, self.shift)
        for blocks in self.blocks:
            assert isinstance(blocks, nn.ModuleList)
            key, out = blocks
            x = x + out(torch.einsum("bnd,md->bnm", key(x), positions).softmax(-1) @ positions)
        return x


def _compared(*, is_wrong: bool) -> parity.Report:
    torch.manual_seed(0)
    network = Network()
    return parity.compare(network, Port(network, is_wrong=is_wrong), (torch.randn(2, 4, WIDTH),), probe=False)


def test_it_is_the_norm_that_fails() -> None:
    assert _compared(is_wrong=True).failing == ["norm_of_table"]


def test_the_right_one_passes() -> None:
    assert _compared(is_wrong=False).ok
