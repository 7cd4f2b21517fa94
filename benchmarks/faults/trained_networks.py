"""Two small classifiers to train, each in torch and ported by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from cellbridge.runtime import Tensor, ops
from cellbridge.runtime import nn as cells


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(6, 12), nn.LayerNorm(12), nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.nn.functional.gelu(self.norm(self.fc1(x))))


class MlpCell(cells.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.fc2 = cells.Dense(6, 12), cells.LayerNorm((12,), epsilon=1e-5), cells.Dense(12, 4)

    def construct(self, x: Tensor) -> Tensor:
        return self.fc2(ops.gelu(self.norm(self.fc1(x))))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Linear(6, 4)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.dropout(torch.relu(self.bn(self.conv(x))).mean((2, 3))))


class CnnCell(cells.Cell):
    def __init__(self, momentum: float = 0.9, dropout: float = 0.2, batch_statistics: bool | None = None) -> None:
        super().__init__()
        self.conv = cells.Conv2d(2, 6, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn = cells.BatchNorm2d(6, momentum=momentum, use_batch_statistics=batch_statistics)
        self.fc = cells.Dense(6, 4)
        self.dropout = cells.Dropout(p=dropout)

    def construct(self, x: Tensor) -> Tensor:
        return self.fc(self.dropout(ops.relu(self.bn(self.conv(x))).mean((2, 3))))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[..., cells.Cell], tuple[int, ...]]] = {
    "mlp": (Mlp, MlpCell, (8, 6)),
    "cnn": (Cnn, CnnCell, (6, 2, 5, 5)),
}


def make(name: str, **port_arguments: Any) -> tuple[nn.Module, cells.Cell, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return a module, its port and eight batches, always the same."""
    module, port, shape = NETWORKS[name]
    with torch.random.fork_rng():
        torch.manual_seed(7)
        network = module()
        data = [(torch.randn(shape), torch.randint(0, 4, shape[:1])) for _ in range(8)]
    return network, port(**port_arguments), data
