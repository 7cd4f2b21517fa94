"""A convolution and a gain for each of its channels, against the convolution with the gain folded in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..twin import Twin

SIZE_IN, SIZE = 3, 5


class ScaledConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(SIZE_IN, SIZE, 3, padding=1)
        self.gain = nn.Parameter(torch.ones(SIZE))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * self.gain.view(1, -1, 1, 1)


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, SIZE_IN, 6, 7),)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    module = nn.Conv2d(SIZE_IN, SIZE, 3, padding=1)
    gain = w["gain"]
    module.load_state_dict({"weight": w["conv.weight"] * gain[:, None, None, None], "bias": w["conv.bias"] * gain})
    return module


TWINS = [Twin("gain/folded", ScaledConv, port, inputs)]
