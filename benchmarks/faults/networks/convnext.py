"""A ConvNeXt: patchify stem, wide depthwise kernels, channels-last norms and MLPs, layer scale, downsampling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm2d(nn.LayerNorm):
    """Normalizes the channels of each position of a map."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.permute(0, 2, 3, 1)
        y = F.layer_norm(y, self.normalized_shape, self.weight, self.bias, self.eps)
        return y.permute(0, 3, 1, 2)


class GlobalResponseNorm(nn.Module):
    """Channels compete by their norms over the map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        size = x.norm(p=2, dim=(1, 2), keepdim=True)
        share = size / (size.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * share) + self.beta + x


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.act = nn.GELU()
        self.grn = GlobalResponseNorm(4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pwconv1(self.norm(y))
        y = self.pwconv2(self.grn(self.act(y)))
        y = (self.gamma * y).permute(0, 3, 1, 2)
        return x + y


class ConvNeXt(nn.Module):
    """images [batch, 3, 24, 24] to scores [batch, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, stride=4)
        self.stem_norm = LayerNorm2d(8, eps=1e-6)
        self.stage1 = nn.Sequential(Block(8), Block(8))
        self.down_norm = LayerNorm2d(8, eps=1e-6)
        self.down = nn.Conv2d(8, 12, 2, stride=2)
        self.stage2 = nn.Sequential(Block(12), Block(12))
        self.norm = nn.LayerNorm(12, eps=1e-6)
        self.head = nn.Linear(12, 4)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stage1(self.stem_norm(self.stem(images)))
        x = self.stage2(self.down(self.down_norm(x)))
        return self.head(self.norm(x.mean((-2, -1))))


def build() -> nn.Module:
    return ConvNeXt()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 24, 24),)
