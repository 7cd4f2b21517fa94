"""A classifier on parts of a batch, whose gradients are reduced by hand."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

splits_batch = True


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def model() -> nn.Module:
    return Classifier()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(8, 6),)


def loss(outputs: Tensor) -> Tensor:
    return outputs.square().mean()


def parallelize(module: nn.Module, mesh: Any) -> None:
    def reduce(parameter: Tensor) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(mesh.size())

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
