"""A model of a stream [batch, length, channels]: a causal convolution, a mean of all so far, a GRU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CHANNELS, KERNEL = 3, 4


class CausalConvolution(nn.Module):
    """Its state is the end of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, 4, KERNEL)

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        before = torch.zeros(len(x), KERNEL - 1, CHANNELS, dtype=x.dtype) if state is None else state
        whole = torch.cat([before, x], 1)
        return self.conv(whole.mT).mT, whole[:, 1 - KERNEL :]


class RunningMean(nn.Module):
    """Subtracts the mean of all values so far; its state is their sum and their number."""

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        total, count = (torch.zeros_like(x[:, :1]), torch.zeros(1, 1, 1, dtype=x.dtype)) if state is None else state
        sums = x.cumsum(1) + total
        counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[None, :, None] + count
        return x - sums / counts, (sums[:, -1:], counts[:, -1:])


class Stream(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.mean = CausalConvolution(), RunningMean()
        self.gru, self.out = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        of_conv, of_mean, of_gru = (None, None, None) if state is None else state
        x, of_conv = self.conv(x, of_conv)
        x, of_mean = self.mean(torch.relu(x), of_mean)
        x, of_gru = self.gru(x, of_gru)
        return self.out(x), (of_conv, of_mean, of_gru)


def build() -> nn.Module:
    return Stream()


def inputs() -> Tensor:
    return torch.randn(2, 13, CHANNELS)


def decode(module: nn.Module, x: Tensor, state: Any) -> Any:
    return module(x, state)
