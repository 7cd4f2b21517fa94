"""An EfficientNet: TensorFlow's padding, fused and separable inverted residuals, stochastic depth, swish."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SameConv(nn.Conv2d):
    """A convolution that pads as TensorFlow does: what is odd goes to the right and to the bottom."""

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for axis in (-1, -2):
            size, kernel, stride = x.shape[axis], self.kernel_size[axis], self.stride[axis]
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        x = F.pad(x, pads)
        return F.conv2d(x, self.weight, self.bias, self.stride, groups=self.groups)


class StochasticDepth(nn.Module):
    """Drops the branches of whole samples in training, and scales the others up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        kept = torch.rand(x.shape[0], 1, 1, 1) >= self.rate
        return x / (1 - self.rate) * kept


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.fc2(F.silu(self.fc1(x.mean((2, 3), keepdim=True))))
        return scale.sigmoid() * x


class MBConv(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection; the first two fused in early blocks."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, fused: bool) -> None:
        super().__init__()
        inner = 3 * channels_in
        size, step = (kernel, stride) if fused else (1, 1)
        self.expand = SameConv(channels_in, inner, size, step, bias=False)
        self.bn1 = nn.BatchNorm2d(inner, eps=1e-3)
        self.depthwise = nn.Identity() if fused else SameConv(inner, inner, kernel, stride, groups=inner, bias=False)
        self.bn2 = nn.Identity() if fused else nn.BatchNorm2d(inner, eps=1e-3)
        self.se = nn.Identity() if fused else SqueezeExcitation(inner, max(1, channels_in // 4))
        self.project = SameConv(inner, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels, eps=1e-3)
        self.drop = StochasticDepth(0.2)
        self.fused = fused
        self.residual = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.bn1(self.expand(x)))
        if not self.fused:
            y = self.se(F.silu(self.bn2(self.depthwise(y))))
        y = self.bn3(self.project(y))
        return x + self.drop(y) if self.residual else y


class EfficientNet(nn.Module):
    """images [batch, 3, 18, 18] to scores [batch, 5]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv(3, 8, 3, 2, bias=False)
        self.bn = nn.BatchNorm2d(8, eps=1e-3)
        self.blocks = nn.ModuleList([MBConv(8, 8, 3, 1, True), MBConv(8, 12, 3, 2, True), MBConv(12, 12, 5, 1, False)])
        self.head = nn.Conv2d(12, 16, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(16, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = F.silu(self.bn(self.stem(images)))
        for block in self.blocks:
            x = block(x)
        x = self.pool(F.silu(self.head(x))).flatten(1)
        return self.classifier(x)


def build() -> nn.Module:
    return EfficientNet()


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(3, 3, 18, 18),)
