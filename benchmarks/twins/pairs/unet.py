"""A U-Net as in the best-known repository, against one of nested levels, in which the skip comes last."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

SIZES = (6, 8, 12)


class DoubleConv(nn.Module):
    """(convolution, norm, ReLU) twice."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(in_channels, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
        self.conv = DoubleConv(2 * out_channels, out_channels)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = self.up(x1)
        y, x = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [x // 2, x - x // 2, y // 2, y - y // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inc = DoubleConv(3, SIZES[0])
        self.down1 = Down(SIZES[0], SIZES[1])
        self.down2 = Down(SIZES[1], SIZES[2])
        self.up1 = Up(SIZES[2], SIZES[1])
        self.up2 = Up(SIZES[1], SIZES[0])
        self.outc = nn.Conv2d(SIZES[0], 2, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 12, 20),)


class Unit(nn.Sequential):
    """One convolution, its norm and its activation."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__(nn.Conv2d(size, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())


class Hourglass(nn.Module):
    """Levels inside one another: each one goes down, lets the next one work, and comes up."""

    def __init__(self, sizes: tuple[int, ...], size_in: int) -> None:
        super().__init__()
        self.before = nn.Sequential(Unit(size_in, sizes[0]), Unit(sizes[0], sizes[0]))
        self.deeper: Hourglass | None = None
        if len(sizes) > 1:
            self.deeper = Hourglass(sizes[1:], sizes[0])
            self.grow = nn.ConvTranspose2d(sizes[1], sizes[0], 2, 2)
            self.after = nn.Sequential(Unit(2 * sizes[0], sizes[0]), Unit(sizes[0], sizes[0]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        if self.deeper is None:
            return x
        y = self.grow(self.deeper(F.max_pool2d(x, 2)))
        return self.after(torch.cat((y, x), 1))


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.glass = Hourglass(SIZES, 3)
        self.last = nn.Conv2d(SIZES[0], 2, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.last(self.glass(x))}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"last.weight": w["outc.weight"], "last.bias": w["outc.bias"]}

    def double(target: str, source: str) -> None:
        for unit, number in ((0, 0), (1, 3)):
            state[f"{target}.{unit}.0.weight"] = w[f"{source}.double_conv.{number}.weight"]
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                state[f"{target}.{unit}.1.{name}"] = w[f"{source}.double_conv.{number + 1}.{name}"]

    double("glass.before", "inc")
    double("glass.deeper.before", "down1.maxpool_conv.1")
    double("glass.deeper.deeper.before", "down2.maxpool_conv.1")
    for target, source, size in (("glass.deeper", "up1", SIZES[1]), ("glass", "up2", SIZES[0])):
        state[f"{target}.grow.weight"], state[f"{target}.grow.bias"] = w[f"{source}.up.weight"], w[f"{source}.up.bias"]
        double(f"{target}.after", f"{source}.conv")
        first = f"{target}.after.0.0.weight"
        state[first] = state[first].roll(size, dims=1)
    module = Segmenter()
    module.load_state_dict(state)
    return module


TWINS = [Twin("unet/skip last", UNet, port, inputs)]
