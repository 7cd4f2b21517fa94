"""A WaveNet: dilated causal convolutions with gates, residual and skip paths, conditioning, weight normalization."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CausalConv(nn.Module):
    """A convolution over time that sees nothing later, with a kernel of a direction and a length."""

    def __init__(self, channels_in: int, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.left = (kernel - 1) * dilation
        self.direction = nn.Parameter(torch.randn(channels, channels_in, kernel))
        self.length = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        size = self.direction.flatten(1).norm(dim=1)
        weight = self.direction * (self.length / size)[:, None, None]
        x = F.pad(x, (self.left, 0))
        return F.conv1d(x, weight, self.bias, dilation=self.dilation)


class GatedLayer(nn.Module):
    """A gated convolution with a residual and a skip output."""

    def __init__(self, channels: int, dilation: int, condition: int) -> None:
        super().__init__()
        self.conv = CausalConv(channels, 2 * channels, 2, dilation)
        self.condition = nn.Conv1d(condition, 2 * channels, 1, bias=False)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        features = self.conv(x) + self.condition(c)
        signal, gate = features.chunk(2, dim=1)
        y = torch.tanh(signal) * torch.sigmoid(gate)
        return (x + self.res(y)) * 0.5**0.5, self.skip(y)


class Wavenet(nn.Module):
    """signal [batch, 1, time] and condition [batch, 3, time / 4] to scores [batch, 6, time]."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.first = CausalConv(1, channels, 3, 1)
        self.upsample = nn.ConvTranspose1d(3, 4, 8, stride=4, padding=2)
        self.layers = nn.ModuleList(GatedLayer(channels, dilation, 4) for dilation in (1, 2, 4))
        self.prelu = nn.PReLU(channels)
        self.norm = nn.InstanceNorm1d(channels, affine=True)
        self.out1 = nn.Conv1d(channels, channels, 1)
        self.elu = nn.ELU(alpha=0.5)
        self.out2 = nn.Conv1d(channels, 6, 1)

    def forward(self, signal: Tensor, condition: Tensor) -> Tensor:
        c = self.upsample(condition)
        x = self.first(signal)
        total = torch.zeros_like(x)
        for layer in self.layers:
            x, skip = layer(x, c)
            total = total + skip
        y = self.out1(self.norm(self.prelu(total)))
        return self.out2(self.elu(y))


def build() -> nn.Module:
    return Wavenet()


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, 1, 16), torch.randn(2, 3, 4)
