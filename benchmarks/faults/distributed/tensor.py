"""A transformer block that is spread over the processes by hand: each has some heads and some inner channels."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

WIDTH, HEADS = 8, 4


class ToAll(torch.autograd.Function):
    """The same tensor on all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Sum(torch.autograd.Function):
    """The sum of the processes' tensors; each gets the gradient of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.heads = HEADS

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = (q @ k.mT / (WIDTH // HEADS) ** 0.5).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class Column(nn.Module):
    """Some of the outputs of a linear layer."""

    def __init__(self, layer: nn.Linear, rank: int, ranks: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().chunk(ranks, 0)[rank].clone())
        self.bias = nn.Parameter(layer.bias.detach().chunk(ranks, 0)[rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(ToAll.apply(x), self.weight, self.bias)


class Row(nn.Module):
    """A linear layer of which each process has some of the inputs."""

    def __init__(self, layer: nn.Linear, rank: int, ranks: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().chunk(ranks, 1)[rank].clone())
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return Sum.apply(nn.functional.linear(x, self.weight)) + self.bias


def model() -> nn.Module:
    return Block()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(3, 5, WIDTH),)


def parallelize(module: Any, mesh: Any) -> None:
    rank, ranks = mesh.get_local_rank(), mesh.size()
    attention = module.attention
    attention.heads = HEADS // ranks
    for name in ("query", "key", "value"):
        setattr(attention, name, Column(getattr(attention, name), rank, ranks))
    attention.out = Row(attention.out, rank, ranks)
    module.up, module.down = Column(module.up, rank, ranks), Row(module.down, rank, ranks)
