"""PointNet as it is known, with convolutions of size 1 over points, against Linear layers on points that come last."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..twin import Twin

SIZES, CLASSES = (3, 8, 12), 4


class TNet(nn.Module):
    """Predicts a matrix that the points are turned by."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(3, 8, 1)
        self.bn1 = nn.BatchNorm1d(8)
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 9)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = torch.max(x, 2)[0]
        x = self.fc2(F.relu(self.fc1(x)))
        return x.view(-1, 3, 3) + torch.eye(3, dtype=x.dtype)


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stn = TNet()
        self.conv1 = nn.Conv1d(SIZES[0], SIZES[1], 1)
        self.conv2 = nn.Conv1d(SIZES[1], SIZES[2], 1)
        self.bn1 = nn.BatchNorm1d(SIZES[1])
        self.bn2 = nn.BatchNorm1d(SIZES[2])
        self.fc = nn.Linear(SIZES[2], CLASSES)
        self.dropout = nn.Dropout(0.3)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        trans = self.stn(points)
        x = torch.bmm(points.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x = torch.max(x, 2)[0]
        return F.log_softmax(self.fc(self.dropout(x)), dim=1), trans


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(3, 3, 10),)


class SharedMlp(nn.Module):
    """The same layers for each point: [batch, points, size]; the norm is written out."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, out)
        self.gamma = nn.Parameter(torch.ones(out))
        self.beta = nn.Parameter(torch.zeros(out))
        self.register_buffer("mean", torch.zeros(out))
        self.register_buffer("variance", torch.ones(out))

    def forward(self, x: Tensor) -> Tensor:
        x = (self.linear(x) - self.mean) / torch.sqrt(self.variance + 1e-5)
        return x * self.gamma + self.beta


class Aligner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = SharedMlp(3, 8)
        self.all = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 9))

    def forward(self, x: Tensor) -> Tensor:
        return self.all(self.each(x).relu().amax(dim=1)).unflatten(1, (3, 3))


class PointMlp(nn.Module):
    """What the matrix is added to is in the bias of its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.align = Aligner()
        self.first, self.second = SharedMlp(SIZES[0], SIZES[1]), SharedMlp(SIZES[1], SIZES[2])
        self.classify = nn.Linear(SIZES[2], CLASSES)

    def forward(self, points: Tensor) -> dict[str, Tensor]:
        x = points.mT
        matrix = self.align(x)
        x = self.second(self.first(x @ matrix).relu()).amax(dim=1)
        return {"scores": self.classify(x).log_softmax(-1), "matrix": matrix}


def port(reference: nn.Module) -> nn.Module:
    w = reference.state_dict()
    state = {"align.all.2.bias": w["stn.fc2.bias"] + torch.eye(3).flatten(), "align.all.2.weight": w["stn.fc2.weight"]}
    for part in ("weight", "bias"):
        state |= {f"align.all.0.{part}": w[f"stn.fc1.{part}"], f"classify.{part}": w[f"fc.{part}"]}
    for target, conv, norm in (
        ("align.each", "stn.conv1", "stn.bn1"),
        ("first", "conv1", "bn1"),
        ("second", "conv2", "bn2"),
    ):
        state |= {
            f"{target}.linear.weight": w[f"{conv}.weight"].squeeze(-1),
            f"{target}.linear.bias": w[f"{conv}.bias"],
            f"{target}.gamma": w[f"{norm}.weight"],
            f"{target}.beta": w[f"{norm}.bias"],
            f"{target}.mean": w[f"{norm}.running_mean"],
            f"{target}.variance": w[f"{norm}.running_var"],
        }
    module = PointMlp()
    module.load_state_dict(state)
    return module


TWINS = [Twin("pointnet/points last", PointNet, port, inputs)]
