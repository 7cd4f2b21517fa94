"""ResNet-50 of plain layers, as a person would write it."""

from __future__ import annotations

from torch import Tensor, nn

WIDTHS, DEPTHS, CLASSES = (64, 128, 256, 512), (3, 4, 6, 3), 2


def unit(size: int, out: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    """Return a convolution with its batch norm."""
    return nn.Sequential(nn.Conv2d(size, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out))


class Residual(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self, size: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.skip = unit(size, out, stride=stride) if size != out or stride > 1 else nn.Identity()
        self.narrow, self.middle, self.wide = unit(size, width), unit(width, width, 3, stride), unit(width, out)

    def forward(self, x: Tensor) -> Tensor:
        y = self.middle(self.narrow(x).relu()).relu()
        return (self.wide(y) + self.skip(x)).relu()  # type: ignore[no-any-return]


def resnet50() -> nn.Sequential:
    """Return the network, which maps images [batch, 3, height, width] to scores."""
    size, blocks = 64, []
    for stage, (width, depth) in enumerate(zip(WIDTHS, DEPTHS, strict=True)):
        for number in range(depth):
            blocks.append(Residual(size, width, 2 if stage and not number else 1))
            size = 4 * width
    start = nn.Sequential(unit(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
    return nn.Sequential(start, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(size, CLASSES))
