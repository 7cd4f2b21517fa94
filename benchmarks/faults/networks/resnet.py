"""A ResNet: stem with max pooling, basic blocks with batch norm, a strided stage with a projected shortcut."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, with the input or its projection added before the last activation."""

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module | None = None
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return self.relu(y + shortcut)


class AttentionPool(nn.Module):
    """Weighs the positions of a map by a learned score before they are summed."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(channels, 1, 1)
        self.avg = nn.AvgPool2d(3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.avg(x)
        weights = self.score(x).flatten(2).softmax(-1)
        return (x.flatten(2) * weights).sum(-1)


class ResNet(nn.Module):
    """images [batch, 3, 24, 24] to scores [batch, 7]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.LeakyReLU(0.1)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2), BasicBlock(16, 16))
        self.pool = AttentionPool(16)
        self.fc = nn.Linear(16, 7)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer1(x)
        x = self.layer2(x)
        x = F.normalize(self.pool(x), dim=1)
        return self.fc(x)


def build() -> nn.Module:
    return ResNet()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(4, 3, 24, 24),)
