"""Right ports that are built differently from their originals, the notes on them, and faults in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as tnn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.report.terminal import failure_text
from cellbridge.parity.results.comparison import UNPAIRED
from cellbridge.parity.results.correspondence import PairedCell
from cellbridge.runtime import Tensor, nn, ops


def compared(module: tnn.Module, cell: nn.Cell, *args: Any, **options: Any) -> Report:
    return parity.compare(module, cell, args, **options)


def apart(report: Report) -> dict[str, str]:
    return {pair.module: pair.apart for pair in report.correspondence.cells if pair.apart}


class TorchTwice(tnn.Module):
    """One ReLU and one Linear, each called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu, self.out = tnn.Linear(4, 4), tnn.ReLU(), tnn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.relu(self.fc(self.relu(self.fc(x)))))


class Twice(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu, self.out = nn.Dense(4, 4), nn.ReLU(), nn.Dense(4, 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.out(self.relu(self.fc(self.relu(self.fc(x)))))


class TwoReLUs(Twice):
    def __init__(self) -> None:
        super().__init__()
        self.relu2 = nn.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.out(self.relu2(self.fc(self.relu(self.fc(x)))))


class Functions(Twice):
    def construct(self, x: Tensor) -> Tensor:
        y = ops.relu(ops.dense(x, self.fc.weight, self.fc.bias))
        return self.out(ops.relu(self.fc(y)))


def test_cell_called_twice() -> None:
    report = compared(TorchTwice(), Twice(), torch.randn(3, 4))
    assert report.ok, failure_text(report)
    assert {c.call for c in report.cells["fc"].comparisons} == {0, 1}
    assert report.cells["fc"].calls == 2
    assert not report.correspondence.unpaired


@pytest.mark.parametrize(
    ("cell", "called"),
    [(TwoReLUs(), {"relu": "called once in the candidate, twice in the reference"}),
     (Functions(), {"relu": "called never in the candidate, twice in the reference",
                    "fc": "called once in the candidate, twice in the reference"})],
)  # fmt: skip
@pytest.mark.every(2)
def test_cells_called_more_or_less_often_are_judged_in_the_cell_around(cell: nn.Cell, called: dict[str, str]) -> None:
    report = compared(TorchTwice(), cell, torch.randn(3, 4))
    assert report.ok, failure_text(report)
    assert apart(report) == called
    assert set(report.correspondence.unpaired) == set(called)
    assert {report.cells[path].status for path in called} == {UNPAIRED}
    assert {"fc.weight", "fc.bias"} <= {c.tensor for cell in report.cells.values() for c in cell.comparisons}


def test_the_cell_around_fails_for_what_is_judged_in_it() -> None:
    torch.manual_seed(0)  # numbers above 6 arrive at the second ReLU
    cell = TwoReLUs()
    cell.relu2 = nn.ReLU6()
    report = compared(TorchTwice(), cell, 30 * torch.randn(3, 4))
    assert report.failing == [""]
    assert any("relu (ReLU) is called differently from its port" in line for line in report.cells[""].explanations)


class OneCallLess(Twice):
    def construct(self, x: Tensor) -> Tensor:
        return self.out(self.relu(self.fc(x)))


def test_a_call_forgotten_is_the_fault_of_the_caller() -> None:
    report = compared(TorchTwice(), OneCallLess(), torch.randn(3, 4))
    assert report.failing == [""]
    assert any("called once in the candidate, twice in the reference" in line for line in report.cells[""].explanations)


class TorchSiamese(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.relu = tnn.Linear(4, 3), tnn.ReLU()

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.relu(self.encoder(a)) - 2 * self.relu(self.encoder(b))


class Siamese(nn.Cell):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.encoder, self.relu = nn.Dense(4, 3), nn.ReLU()
        self.factor = factor

    def construct(self, a: Tensor, b: Tensor) -> Tensor:
        right = self.factor * self.relu(self.encoder(b))
        return self.relu(self.encoder(a)) - right


def test_calls_in_another_order() -> None:
    args = torch.randn(2, 4), torch.randn(2, 4)
    report = compared(TorchSiamese(), Siamese(), *args)
    assert report.ok, failure_text(report)
    assert set(apart(report)) == {"encoder", "relu"}
    assert compared(TorchSiamese(), Siamese(2.1), *args).failing == [""]


class TorchSelfAttention(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm = tnn.MultiheadAttention(8, 2, batch_first=True), tnn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.attention(x, x, x)[0])


class Attention(nn.Cell):
    """Of one tensor, with one matrix for queries, keys and values; returns one tensor."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.in_proj, self.out_proj = nn.Dense(8, 24), nn.Dense(8, 8)
        self.scale = scale

    def construct(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = ops.chunk(self.in_proj(x).reshape(b, t, 6, 4).transpose(0, 2, 1, 3), 3, axis=1)
        scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * self.scale, axis=-1)
        return self.out_proj(ops.matmul(scores, v).transpose(0, 2, 1, 3).reshape(b, t, c))


class SelfAttention(nn.Cell):
    def __init__(self, scale: float = 0.5) -> None:
        super().__init__()
        self.attention, self.norm = Attention(scale), nn.LayerNorm((8,), epsilon=1e-5)

    def construct(self, x: Tensor) -> Tensor:
        return self.norm(x + self.attention(x))


WEIGHTS = {"attention.in_proj.weight": "attention.in_proj_weight", "attention.in_proj.bias": "attention.in_proj_bias"}


def test_a_layer_with_other_arguments_and_results() -> None:
    x = torch.randn(2, 3, 8)
    report = compared(TorchSelfAttention(), SelfAttention(), x, weights=WEIGHTS)
    assert report.ok, failure_text(report)
    assert "returns 1 tensor (result) in the candidate, 2 tensors ([0], [1])" in apart(report)["attention"]
    assert compared(TorchSelfAttention(), SelfAttention(0.6), x, weights=WEIGHTS).failing == [""]


class TorchRows(tnn.Module):
    """[batch, time, size] in a Linear, a norm, an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.drop = tnn.Linear(4, 6), tnn.LayerNorm(6), tnn.Dropout(0.4)
        self.lstm = tnn.LSTM(6, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (h, _) = self.lstm(self.drop(self.norm(self.fc(x))))
        return y, h


class Rows(nn.Cell):
    """[batch * time, size] in a Dense, [time, batch, size] in the others."""

    def __init__(self, epsilon: float = 1e-5, axes: tuple[int, int, int] = (1, 0, 2)) -> None:
        super().__init__()
        self.fc, self.norm, self.drop = nn.Dense(4, 6), nn.LayerNorm((6,), epsilon=epsilon), nn.Dropout(p=0.4)
        self.lstm = nn.LSTM(6, 5)
        self.axes = axes

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, t, _ = x.shape
        rows = self.fc(x.reshape(b * t, 4)).reshape(b, t, 6)
        y, (h, _) = self.lstm(self.drop(self.norm(rows.transpose(1, 0, 2))))
        return y.transpose(self.axes), h


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 3, 4)])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(3)
def test_tensors_laid_out_otherwise(shape: tuple[int, ...], train: bool) -> None:
    report = compared(TorchRows(), Rows(), torch.randn(*shape), train=train)
    assert report.ok, failure_text(report)
    assert not report.correspondence.unpaired
    assert {path for path, cell in report.cells.items() if cell.comparisons} == {"", "fc", "norm", "drop", "lstm"}
    assert sum("in another layout in the Cell" in note for note in report.notes) == 4


def test_faults_among_tensors_laid_out_otherwise() -> None:
    x = torch.randn(3, 3, 4)
    assert compared(TorchRows(), Rows(axes=(0, 1, 2)), x).failing == [""]
    assert "norm" in compared(TorchRows(), Rows(epsilon=1e-3), x).failing


class TorchBlockOfThree(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = tnn.Conv2d(2, 3, 3, bias=False), tnn.BatchNorm2d(3)
        self.conv2, self.bn2 = tnn.Conv2d(3, 3, 1, bias=False), tnn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class ConvNormReLU(nn.Cell):
    def __init__(self, inputs: int, outputs: int, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, pad_mode="valid")
        self.bn = nn.BatchNorm2d(outputs, eps=eps)
        self.relu = nn.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.relu(self.bn(self.conv(x)))


class BlockOfThree(nn.Cell):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.conv1, self.conv2 = ConvNormReLU(2, 3, 3), ConvNormReLU(3, 3, 1, eps)

    def construct(self, x: Tensor) -> Tensor:
        return self.conv2(self.conv1(x))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_layers_that_are_one_block_in_the_port(train: bool) -> None:
    x = torch.randn(2, 2, 5, 5)
    report = compared(TorchBlockOfThree(), BlockOfThree(), x, train=train)
    assert report.ok, failure_text(report)
    assert PairedCell("bn2", "BatchNorm2d", "conv2.bn", "BatchNorm2d", "class and order") in report.correspondence.cells
    assert "conv1 (ConvNormReLU)" in report.correspondence.lone_cells
    assert compared(TorchBlockOfThree(), BlockOfThree(1e-2), x, train=train).failing == ["bn2"]


def test_a_value_that_is_not_compared_is_said() -> None:
    class TorchTwo(tnn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x, 2 * x

    class One(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return x

    class Three(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return x, 2 * x, np.float32(3) * x

    less = compared(TorchTwo(), One(), torch.randn(2))
    more = compared(TorchTwo(), Three(), torch.randn(2))
    assert less.sentence.startswith("Parity holds in 1 of 2 results")
    assert "[1] of the reference has no partner and was not compared" in less.structure[0].text
    assert "[2] of the candidate has no partner and was not compared" in more.structure[0].text
    assert not compared(TorchTwo(), One(), torch.randn(2), strict=True).ok


class TorchBranches(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = tnn.Linear(4, 4), tnn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.up(x) if x.mean() > 0 else self.down(x)
        return y


class Branches(nn.Cell):
    def __init__(self, bound: float) -> None:
        super().__init__()
        self.up, self.down = nn.Dense(4, 4), nn.Dense(4, 4)
        self.bound = bound

    def construct(self, x: Any) -> Any:
        return self.up(x) if float(x.mean().asnumpy()) > self.bound else self.down(x)


@pytest.mark.parametrize(("bound", "holds"), [(0.0, True), (-9.0, False)])
def test_a_cell_that_further_inputs_alone_call_is_paired(bound: float, holds: bool) -> None:
    report = compared(TorchBranches(), Branches(bound), torch.rand(3, 4), probe=True, diagnose_seconds=0)
    assert report.ok == holds, str(report)
