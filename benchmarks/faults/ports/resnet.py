"""The ResNet, ported by hand."""

from __future__ import annotations

from cellbridge.runtime import Tensor, nn, ops


class BasicBlock(nn.Cell):
    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, pad_mode="pad", padding=1, has_bias=False)
        self.bn1 = nn.BatchNorm2d(channels, eps=1e-5, momentum=0.9)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, pad_mode="pad", padding=1, has_bias=False)
        self.bn2 = nn.BatchNorm2d(channels, eps=1e-5, momentum=0.9)
        self.shortcut = None
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.SequentialCell(
                [nn.Conv2d(channels_in, channels, 1, stride, has_bias=False), nn.BatchNorm2d(channels, momentum=0.9)]
            )

    def construct(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return self.relu(y + shortcut)


class AttentionPool(nn.Cell):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(channels, 1, 1, has_bias=True)
        self.avg = nn.AvgPool2d(3, stride=2, pad_mode="pad", padding=1)

    def construct(self, x: Tensor) -> Tensor:
        x = self.avg(x)
        batch, channels, height, width = x.shape
        weights = ops.softmax(self.score(x).reshape(batch, 1, height * width), -1)
        return (x.reshape(batch, channels, height * width) * weights).sum(-1)


class ResNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, pad_mode="pad", padding=1, has_bias=False)
        self.bn1 = nn.BatchNorm2d(8, eps=1e-5, momentum=0.9)
        self.relu = nn.LeakyReLU(alpha=0.1)
        self.maxpool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        self.layer1 = nn.SequentialCell([BasicBlock(8, 8), BasicBlock(8, 8)])
        self.layer2 = nn.SequentialCell([BasicBlock(8, 16, 2), BasicBlock(16, 16)])
        self.pool = AttentionPool(16)
        self.fc = nn.Dense(16, 7)

    def construct(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer2(self.layer1(x))
        x = self.pool(x)
        x = x / ops.maximum(ops.sqrt((x * x).sum(1, keepdims=True)), 1e-12)
        return self.fc(x)


def build() -> nn.Cell:
    return ResNet()
