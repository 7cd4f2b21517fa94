"""Networks on waves: weight-normed convolutions in time, against plain ones with the norms merged."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from ..twin import Twin

CHANNELS, DILATIONS, CLASSES = 6, (1, 2, 4), 4


class TemporalBlock(nn.Module):
    """As in the TCN: two causal convolutions whose padding is cut off afterwards."""

    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.cut = 2 * dilation
        self.conv1 = weight_norm(nn.Conv1d(size, CHANNELS, 3, padding=self.cut, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(CHANNELS, CHANNELS, 3, padding=self.cut, dilation=dilation))
        self.dropout = nn.Dropout(0.2)
        self.downsample = nn.Conv1d(size, CHANNELS, 1) if size != CHANNELS else None
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.dropout(self.relu(self.conv1(x)[..., : -self.cut]))
        out = self.dropout(self.relu(self.conv2(out)[..., : -self.cut]))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class TCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = (2, *(CHANNELS for _ in DILATIONS))
        self.network = nn.Sequential(*(TemporalBlock(n, d) for n, d in zip(sizes, DILATIONS, strict=False)))
        self.linear = nn.Linear(CHANNELS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.linear(self.network(x)[:, :, -1]), dim=1)


def waves() -> tuple[Tensor, ...]:
    return (torch.randn(2, 2, 20),)


class CausalConv(nn.Conv1d):
    """Pads on the left alone."""

    def __init__(self, size: int, dilation: int) -> None:
        super().__init__(size, CHANNELS, 3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (2 * self.dilation[0], 0)))


class Stage(nn.Module):
    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(CausalConv(size, dilation), nn.ReLU(), CausalConv(CHANNELS, dilation), nn.ReLU())
        self.skip = nn.Conv1d(size, CHANNELS, 1) if size != CHANNELS else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class MergedTCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(Stage(CHANNELS if i else 2, d) for i, d in enumerate(DILATIONS))
        self.classes = nn.Linear(CHANNELS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x)
        return self.classes(x[..., -1]).log_softmax(-1)


def merged(gain: Tensor, direction: Tensor) -> Tensor:
    return gain * direction / direction.norm(dim=(1, 2), keepdim=True)


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"classes.weight": w["linear.weight"], "classes.bias": w["linear.bias"]}
    for i in range(len(DILATIONS)):
        for number, name in ((0, "conv1"), (2, "conv2")):
            source = f"network.{i}.{name}"
            gain, direction = (w[f"{source}.parametrizations.weight.original{n}"] for n in (0, 1))
            state[f"stages.{i}.body.{number}.weight"] = merged(gain, direction)
            state[f"stages.{i}.body.{number}.bias"] = w[f"{source}.bias"]
    state |= {f"stages.0.skip.{part}": w[f"network.0.downsample.{part}"] for part in ("weight", "bias")}
    module = MergedTCN()
    module.load_state_dict(state)
    return module


TWINS = [Twin("wave/weight norm merged", TCN, port, waves)]
