"""A MobileNetV3: inverted residuals with depthwise convolutions, squeeze and excitation, hard swish."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SqueezeExcitation(nn.Module):
    """Scales channels by what a small network makes of their means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.act = nn.ReLU()
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        scale = self.expand(self.act(self.reduce(scale)))
        return x * F.hardsigmoid(scale)


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, squeeze and excitation, 1x1 projection without activation."""

    def __init__(self, channels_in: int, inner: int, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels_in, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner, eps=1e-3, momentum=0.01)
        self.depthwise = nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False)
        self.bn2 = nn.BatchNorm2d(inner, eps=1e-3, momentum=0.01)
        self.se = SqueezeExcitation(inner)
        self.act = nn.Hardswish()
        self.project = nn.Conv2d(inner, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
        self.add = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.bn1(self.expand(x)))
        y = self.act(self.bn2(self.depthwise(y)))
        y = self.bn3(self.project(self.se(y)))
        return x + y if self.add else y


class MobileNet(nn.Module):
    """images [batch, 3, 20, 20] to scores [batch, 5]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.stem_bn = nn.BatchNorm2d(8, eps=1e-3, momentum=0.01)
        self.blocks = nn.Sequential(
            InvertedResidual(8, 16, 8, 3, 1), InvertedResidual(8, 24, 12, 5, 2), InvertedResidual(12, 24, 12, 3, 1)
        )
        self.head = nn.Linear(12, 16)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(16, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = F.hardswish(self.stem_bn(self.stem(images)))
        x = self.blocks(x)
        x = torch.flatten(x.mean((2, 3)), 1)
        x = F.hardswish(self.head(x))
        return self.classifier(self.dropout(x))


def build() -> nn.Module:
    return MobileNet()


def inputs() -> tuple[Tensor, ...]:
    return (2 * torch.randn(3, 3, 20, 20),)
