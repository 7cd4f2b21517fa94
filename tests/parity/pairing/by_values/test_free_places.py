"""Behind a fault, tensors get places that no other tensor has before those that others have."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH = 5


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.activation = nn.Linear(WIDTH, WIDTH), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x + self.layer(x))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.head = nn.Sequential(Block(), Block(), Block()), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x).mean(1))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Adds each block's input behind the activation."""

    def __init__(self, like: Network) -> None:
        super().__init__()
        self.stack, self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in like.blocks), nn.Linear(WIDTH, 2)
        self.out.load_state_dict(like.head.state_dict())
        for layer, block in zip(self.stack, like.blocks, strict=True):
            layer.load_state_dict(block.layer.state_dict())  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.stack:
            x = layer(x).relu() + x
        return self.out(x.mean(1))  # type: ignore[no-any-return]


def test_the_result_of_a_wrong_block_is_found_before_what_is_nowhere() -> None:
    torch.manual_seed(0)
    module = Network()
    report = parity.compare(module, Port(module), torch.randn(3, 4, WIDTH), probe=False)
    assert report.failing == ["blocks.0", "blocks.1", "blocks.2"], str(report)
