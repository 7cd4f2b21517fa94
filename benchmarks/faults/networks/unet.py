"""A denoising U-Net: residual blocks with group norm and time embedding, attention, down- and upsampling, skips."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    """Sines and cosines of the time at geometric frequencies, and an MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.max_period = 10000.0
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, 2 * width)

    def forward(self, t: Tensor) -> Tensor:
        half = self.width // 2
        exponent = -math.log(self.max_period) * torch.arange(half, dtype=self.fc1.weight.dtype) / half
        angles = t[:, None] * exponent.exp()
        x = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return self.fc2(F.silu(self.fc1(x)))


class ResBlock(nn.Module):
    def __init__(self, channels_in: int, channels: int, time: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(2, channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.time = nn.Linear(time, 2 * channels)
        self.norm2 = nn.GroupNorm(4, channels)
        self.dropout = nn.Dropout(0.1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.skip = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        y = self.norm2(y) * (1 + scale) + shift
        y = self.conv2(self.dropout(F.silu(y)))
        return (self.skip(x) + y) / math.sqrt(2)


class AttentionBlock(nn.Module):
    """Attention of all positions to each other, through torch's fused function."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, channels, eps=1e-6)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2)).transpose(1, 2).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return x + self.proj(y).view(batch, channels, height, width)


class UNet(nn.Module):
    """noisy images [batch, 3, 12, 12] and times [batch] to noise [batch, 3, 12, 12]."""

    def __init__(self) -> None:
        super().__init__()
        self.time = TimeEmbedding(8)
        self.conv_in = nn.Conv2d(3, 8, 3, padding=1)
        self.down1 = ResBlock(8, 8, 16)
        self.downsample = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.down2 = ResBlock(8, 12, 16)
        self.attention = AttentionBlock(12)
        self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.up_conv = nn.Conv2d(12, 8, 3, padding=1)
        self.up1 = ResBlock(16, 8, 16)
        self.norm_out = nn.GroupNorm(4, 8)
        self.conv_out = nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, images: Tensor, t: Tensor) -> Tensor:
        time = self.time(t)
        x = self.conv_in(images)
        skip = self.down1(x, time)
        x = self.attention(self.down2(self.downsample(skip), time))
        x = self.up_conv(self.upsample(x))
        x = self.up1(torch.cat([x, skip], dim=1), time)
        return self.conv_out(F.silu(self.norm_out(x)))


def build() -> nn.Module:
    return UNet()


def inputs() -> tuple[Tensor, ...]:
    return torch.randn(2, 3, 12, 12), torch.tensor([3.0, 250.0])
