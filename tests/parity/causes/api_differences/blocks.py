"""Blocks as users write them, and their wrong and right ports; their calls are read from the source."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn as torch_nn

from cellbridge.runtime import Tensor, nn, ops


class Standardized(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.std(dim=-1, keepdim=True)


class StandardizedWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x / x.std(axis=-1, keepdims=True)


class StandardizedRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x / ops.std(x, -1, 1, True)


class Gelu(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)


class GeluWrong(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.gelu = ops.GeLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.gelu(x)


class GeluRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.gelu(x)


class Leaky(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(x)


class LeakyWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(x)


class LeakyRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(x, 0.01)


class Weights(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


class WeightsWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.softmax(x, axis=0)


class WeightsRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.softmax(x, axis=-1)


class SmoothLoss(torch_nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(x, y)


class SmoothLossWrong(nn.Cell):
    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.smooth_l1_loss(x, y)


class SmoothLossRight(nn.Cell):
    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.smooth_l1_loss(x, y, reduction="mean")


class Halved(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(x, 2)


class HalvedWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, 2)


class HalvedRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, 2, stride=2)


class Dropped(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.1, self.training)


class DroppedWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.dropout(x, p=0.9, training=self.training)


class DroppedAlways(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.dropout(x, p=0.1)


class DroppedByObject(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = ops.Dropout(keep_prob=0.1)

    def construct(self, x: Tensor) -> Tensor:
        return self.dropout(x)[0] if self.training else x


class DroppedRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.dropout(x, 0.1, self.training)


class Normed(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (8,))


class NormedWrong(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm = ops.LayerNorm(-1, -1)

    def construct(self, x: Tensor) -> Tensor:
        return self.norm(x, ops.ones(8), ops.zeros(8))[0]


class NormedRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, (8,))


class Flat(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(x)


class FlatWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.flatten(x)


class FlatRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x.flatten()


class Grown(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(8, 8), mode="bilinear")


class GrownWrong(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.resize = ops.ResizeBilinearV2()

    def construct(self, x: Tensor) -> Tensor:
        return self.resize(x, (8, 8))


class GrownRight(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.resize = ops.ResizeBilinearV2(half_pixel_centers=True)

    def construct(self, x: Tensor) -> Tensor:
        return self.resize(x, (8, 8))


class Largest(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.max(-1)[0]


class LargestWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x.max(-1)[0]


class LargestRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x.max(-1)


class Cut(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.detach()


class CutWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x * x


class CutRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x * ops.stop_gradient(x)


class Rows(torch_nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), -1)


class RowsWrong(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1)


class RowsRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1)


class Unreadable(torch_nn.Module):
    """What `dim` is, the source doesn't say."""

    def __init__(self) -> None:
        super().__init__()
        self.dim, self.slope = 0, 0.2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(torch.softmax(x, dim=self.dim), self.slope)


class UnreadableRight(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(ops.softmax(x, axis=0))
