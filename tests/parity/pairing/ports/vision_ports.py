"""Blocks of image networks in torch, and their right ports by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn as tnn
from torch.nn import functional as F

from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.common.initializer import initializer


class TorchResidual(tnn.Module):
    """ResNet's basic block with a downsampling shortcut."""

    def __init__(self, inputs: int = 4, outputs: int = 6) -> None:
        super().__init__()
        self.conv1 = tnn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.bn1 = tnn.BatchNorm2d(outputs)
        self.conv2 = tnn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = tnn.BatchNorm2d(outputs)
        self.relu = tnn.ReLU(inplace=True)
        self.downsample = tnn.Sequential(tnn.Conv2d(inputs, outputs, 1, stride=2, bias=False), tnn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.downsample(x))


class Residual(nn.Cell):
    def __init__(self, inputs: int = 4, outputs: int = 6) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=2, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, pad_mode="same")
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.downsample = nn.SequentialCell(
            [nn.Conv2d(inputs, outputs, 1, stride=2, pad_mode="valid"), nn.BatchNorm2d(outputs)]
        )

    def construct(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.downsample(x))


class TorchInvertedResidual(tnn.Module):
    """MobileNetV3's block: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, channels: int = 4, expanded: int = 8) -> None:
        super().__init__()
        self.expand = tnn.Conv2d(channels, expanded, 1, bias=False)
        self.depthwise = tnn.Conv2d(expanded, expanded, 5, padding=2, groups=expanded, bias=False)
        self.norm = tnn.BatchNorm2d(expanded, eps=1e-3, momentum=0.01)
        self.act = tnn.Hardswish()
        self.squeeze = tnn.Conv2d(expanded, 2, 1)
        self.excite = tnn.Conv2d(2, expanded, 1)
        self.project = tnn.Conv2d(expanded, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.norm(self.depthwise(self.expand(x))))
        scale = F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.project(y * scale)


class InvertedResidual(nn.Cell):
    def __init__(self, channels: int = 4, expanded: int = 8) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels, expanded, 1)
        self.depthwise = nn.Conv2d(expanded, expanded, 5, group=expanded)
        self.norm = nn.BatchNorm2d(expanded, eps=1e-3, momentum=0.99)
        self.act = nn.HSwish()
        self.squeeze = nn.Conv2d(expanded, 2, 1, has_bias=True)
        self.excite = nn.Conv2d(2, expanded, 1, has_bias=True)
        self.project = nn.Conv2d(expanded, channels, 1, has_bias=True)
        self.mean = ops.ReduceMean(keep_dims=True)

    def construct(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.depthwise(self.expand(x))))
        scale = ops.hardsigmoid(self.excite(ops.relu(self.squeeze(self.mean(y, (2, 3))))))
        return x + self.project(y * scale)


class TorchUpBlock(tnn.Module):
    """A level of U-Net: pooling, convolutions, two ways of upsampling, the skip connection."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.down = tnn.MaxPool2d(2)
        self.inner = tnn.Sequential(tnn.Conv2d(channels, 6, 3, padding=1), tnn.GroupNorm(2, 6), tnn.LeakyReLU())
        self.up = tnn.ConvTranspose2d(6, 4, 2, stride=2)
        self.smooth = tnn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.merge = tnn.Conv2d(channels + 4 + 6, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        inner = self.inner(self.down(x))
        logits = self.merge(torch.cat([x, self.up(inner), self.smooth(inner)], dim=1))
        return {"logits": logits, "features": inner}


class UpBlock(nn.Cell):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.down = nn.MaxPool2d(2, 2)
        self.inner = nn.SequentialCell(
            nn.Conv2d(channels, 6, 3, has_bias=True), nn.GroupNorm(2, 6), nn.LeakyReLU(alpha=0.01)
        )
        self.up = nn.Conv2dTranspose(6, 4, 2, stride=2, pad_mode="valid", has_bias=True)
        self.smooth = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False, recompute_scale_factor=True)
        self.merge = nn.Conv2d(channels + 4 + 6, 2, 3, has_bias=True)

    def construct(self, x: Tensor) -> dict[str, Tensor]:
        inner = self.inner(self.down(x))
        logits = self.merge(ops.concat([x, self.up(inner), self.smooth(inner)], axis=1))
        return {"logits": logits, "features": inner}


class TorchConvNeXt(tnn.Module):
    """ConvNeXt's block: normalization over the last axis, a scale for each channel."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.dwconv = tnn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = tnn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = tnn.Linear(channels, 4 * channels)
        self.act = tnn.GELU()
        self.pwconv2 = tnn.Linear(4 * channels, channels)
        self.layer_scale = tnn.Parameter(0.1 * torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.layer_scale * self.pwconv2(self.act(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Cell):
    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, group=channels, has_bias=True)
        self.norm = nn.LayerNorm((channels,), epsilon=1e-6)
        self.expand = nn.Dense(channels, 4 * channels)
        self.act = nn.GELU(approximate=False)
        self.shrink = nn.Dense(4 * channels, channels)
        self.gamma = Parameter(initializer("ones", (channels,)), name="gamma")

    def construct(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).transpose(0, 2, 3, 1))
        y = self.gamma * self.shrink(self.act(self.expand(y)))
        return x + y.transpose(0, 3, 1, 2)


class TorchMixer(tnn.Module):
    """MLP-Mixer's layer."""

    def __init__(self, patches: int = 5, channels: int = 6) -> None:
        super().__init__()
        self.norm1 = tnn.LayerNorm(channels)
        self.tokens = tnn.Sequential(tnn.Linear(patches, 8), tnn.GELU(), tnn.Linear(8, patches))
        self.norm2 = tnn.LayerNorm(channels)
        self.channels = tnn.Sequential(tnn.Linear(channels, 12), tnn.GELU(), tnn.Linear(12, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class MlpCell(nn.Cell):
    """What torch has as a Sequential, with names."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Dense(size, hidden)
        self.gelu = nn.GELU(approximate=False)
        self.fc2 = nn.Dense(hidden, size)

    def construct(self, x: Tensor) -> Tensor:
        return self.fc2(self.gelu(self.fc1(x)))


class Mixer(nn.Cell):
    def __init__(self, patches: int = 5, channels: int = 6) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm([channels], epsilon=1e-5)
        self.tokens = MlpCell(patches, 8)
        self.norm2 = nn.LayerNorm([channels], epsilon=1e-5)
        self.channels = MlpCell(channels, 12)

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + self.channels(self.norm2(x))


class TorchLeNet(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = tnn.Sequential(
            tnn.Conv2d(1, 4, 5), tnn.ReLU(), tnn.AvgPool2d(2), tnn.Conv2d(4, 6, 3), tnn.PReLU(6), tnn.MaxPool2d(2)
        )
        self.classifier = tnn.Sequential(tnn.Flatten(), tnn.Linear(6 * 4, 10), tnn.Tanh(), tnn.Dropout(0.3))
        self.out = tnn.Linear(10, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.out(self.classifier(self.features(images))), dim=-1)


class LeNet(nn.Cell):
    """Flat, where torch's is nested."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, pad_mode="valid", has_bias=True)
        self.relu = nn.ReLU()
        self.pool = nn.AvgPool2d(2, 2)
        self.conv2 = nn.Conv2d(4, 6, 3, pad_mode="valid", has_bias=True)
        self.prelu = nn.PReLU(6)
        self.max_pool = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(6 * 4, 10)
        self.tanh = nn.Tanh()
        self.dropout = nn.Dropout(p=0.3)
        self.fc2 = nn.Dense(10, 5)
        self.log_softmax = ops.LogSoftmax()

    def construct(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv1(x)))
        x = self.max_pool(self.prelu(self.conv2(x)))
        x = self.dropout(self.tanh(self.fc1(self.flatten(x))))
        return self.log_softmax(self.fc2(x))


class TorchConv1d(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = tnn.Conv1d(3, 4, 3, padding=2, dilation=2)
        self.norm = tnn.BatchNorm1d(4)
        self.gate = tnn.Conv1d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate = torch.sigmoid(self.gate(x))
        return self.norm(self.conv(x)) * gate, gate


class Conv1d(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, dilation=2, has_bias=True)
        self.norm = nn.BatchNorm1d(4)
        self.gate = nn.Conv1d(3, 4, 1, has_bias=True)

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gate = ops.sigmoid(self.gate(x))
        b, c, n = x.shape[0], 4, x.shape[2]
        rows = self.conv(x).swapaxes(1, 2).reshape(b * n, c)  # this BatchNorm1d takes two axes
        return self.norm(rows).reshape(b, n, c).swapaxes(1, 2) * gate, gate


def images(*shape: int) -> tuple[Any, ...]:
    """Normal numbers."""
    return (torch.randn(*shape),)
