"""Networks in torch, their ports, and the map files that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from cellbridge.runtime import Parameter, Tensor, nn, ops


class Residual(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class ResNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        self.layers = torch.nn.Sequential(Residual(8), Residual(8))
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


class ResidualCell(nn.Cell):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 1)
        self.bn2 = nn.BatchNorm2d(channels)

    def construct(self, x: Any) -> Any:
        return ops.relu(x + self.bn2(self.conv2(ops.relu(self.bn1(self.conv1(x))))))


class ResNetCell(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.SequentialCell([nn.Conv2d(3, 8, 3, has_bias=True), nn.BatchNorm2d(8), nn.ReLU()])
        self.layers = nn.SequentialCell([ResidualCell(8), ResidualCell(8)])
        self.fc = nn.Dense(8, 8)

    def construct(self, x: Any) -> Any:
        return self.fc(ops.mean(self.layers(self.stem(x)), (2, 3)))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.in_proj_weight = torch.nn.Parameter(torch.randn(24, 8) / 3)
        self.in_proj_bias = torch.nn.Parameter(torch.randn(24) / 3)
        self.proj = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = F.linear(self.norm(x), self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        return x + self.proj(torch.softmax(q @ k.mT / 8**0.5, -1) @ v)


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok = torch.nn.Embedding(11, 8)
        self.pos = torch.nn.Parameter(torch.randn(1, 5, 8))
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(8, 11, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tok(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class BlockCell(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Dense(8, 8), nn.Dense(8, 8), nn.Dense(8, 8)
        self.proj = nn.Dense(8, 8)
        self.norm = nn.LayerNorm((8,), epsilon=1e-5)

    def construct(self, x: Any) -> Any:
        h = self.norm(x)
        weights = ops.softmax(ops.matmul(self.q(h), self.k(h).swapaxes(-1, -2)) / 8**0.5, -1)
        return x + self.proj(ops.matmul(weights, self.v(h)))


class TransformerCell(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.pos = Parameter(Tensor(torch.zeros(1, 5, 8).numpy()))
        self.layers = nn.CellList([BlockCell(), BlockCell()])
        self.head = nn.Dense(8, 11, has_bias=False)

    def construct(self, ids: Any) -> Any:
        x = self.embed(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


PARTS = 'to = ["layers.*.q.{0}", "layers.*.k.{0}", "layers.*.v.{0}"]'
TRANSFORMER_MAP = f"""
"tok.weight" = "embed.embedding_table"
"head.weight" = "head.weight"
"blocks.*.in_proj_weight" = {{ {PARTS.format("weight")} }}
"blocks.*.in_proj_bias" = {{ {PARTS.format("bias")} }}
"blocks." = "layers."
"""


class Tagger(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(11, 8)
        self.conv = torch.nn.Conv1d(8, 8, 3, padding=1)
        self.lstm = torch.nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)
        self.out = torch.nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(F.relu(self.conv(self.words(ids).mT)).mT)[0])


class TaggerCell(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.conv = nn.Conv1d(8, 8, 3, has_bias=True)
        self.lstm = nn.LSTM(8, 4, 2, batch_first=True, bidirectional=True)
        self.out = nn.Dense(8, 3)

    def construct(self, ids: Any) -> Any:
        return self.out(self.lstm(ops.relu(self.conv(self.words(ids).swapaxes(-1, -2))).swapaxes(-1, -2))[0])


@dataclass(frozen=True)
class Port:
    module: Callable[[], torch.nn.Module]
    cell: Callable[[], nn.Cell]
    input: torch.Tensor
    map: str = ""
    weights: Any = None  # for assert_parity

    def trained(self) -> torch.nn.Module:
        """The module after a few steps, so that no value is a default."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = self.module()
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for _ in range(3):
            module(self.input).square().mean().backward()
            optimizer.step()
        return module.eval()


IDS = torch.tensor([[1, 2, 3, 2, 10], [0, 4, 4, 9, 1]])
QKV = {
    f"layers.*.{name}.{kind}": (f"blocks.*.in_proj_{kind}", lambda array, i=i: array[8 * i : 8 * i + 8])
    for i, name in enumerate("qkv")
    for kind in ("weight", "bias")
}
PORTS = {
    "resnet": Port(ResNet, ResNetCell, torch.linspace(-2, 3, 216).sin().reshape(2, 3, 6, 6)),
    "transformer": Port(Transformer, TransformerCell, IDS, TRANSFORMER_MAP, QKV),
    "lstm": Port(
        Tagger, TaggerCell, IDS,
        '"words.weight" = "words.embedding_table"\n"conv.weight" = { expand_dims = 2 }',
    ),
}  # fmt: skip
