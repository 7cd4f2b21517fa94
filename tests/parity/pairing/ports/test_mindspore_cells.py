"""Real MindSpore Cells as the candidate, where MindSpore is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as tnn

from cellbridge import parity
from cellbridge.parity.report.terminal import failure_text
from cellbridge.parity.sides.known_frameworks import framework_of
from tests.parity.pairing.ports import sequence_ports, vision_ports

mindspore = pytest.importorskip("mindspore", reason="the mindspore package isn't installed")
nn, ops = mindspore.nn, mindspore.ops


class Residual(nn.Cell):
    def __init__(self, eps: float = 1e-5, momentum: float = 0.9, **of_conv: Any) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 6, 3, stride=2, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(6, eps=eps, momentum=momentum)
        self.conv2 = nn.Conv2d(6, 6, 3, **of_conv)
        self.bn2 = nn.BatchNorm2d(6)
        self.relu = nn.ReLU()
        self.downsample = nn.SequentialCell([nn.Conv2d(4, 6, 1, stride=2), nn.BatchNorm2d(6)])

    def construct(self, x: Any) -> Any:
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + self.downsample(x))


class Attention(nn.Cell):
    def __init__(self, size: int, scale: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Dense(size, size) for _ in range(3))
        self.out = nn.Dense(size, size)
        self.dropout = nn.Dropout(p=0.2)
        self.scale = scale

    def split(self, x: Any) -> Any:
        b, t, _ = x.shape
        return x.reshape(b, t, 2, -1).transpose(0, 2, 1, 3)

    def construct(self, x: Any, mask: Any = None) -> Any:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * self.scale
        scores = ops.masked_fill(scores, ops.logical_not(mask), -1e4)
        y = ops.matmul(self.dropout(ops.softmax(scores, axis=-1)), v)
        return self.out(y.transpose(0, 2, 1, 3).reshape(x.shape))


class Encoder(nn.Cell):
    def __init__(self, epsilon: float = 1e-12, scale: float = 0.5, approximate: bool = False) -> None:
        super().__init__()
        self.attention = Attention(8, scale)
        self.norm1 = nn.LayerNorm((8,), epsilon=epsilon)
        self.intermediate = nn.Dense(8, 16)
        self.act = nn.GELU(approximate=approximate)
        self.output = nn.Dense(16, 8)
        self.norm2 = nn.LayerNorm((8,), epsilon=1e-12)

    def construct(self, x: Any, mask: Any) -> Any:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.output(self.act(self.intermediate(x))))


class LSTMClassifier(nn.Cell):
    def __init__(self, last: int = -1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, 5)
        self.lstm = nn.LSTM(5, 4, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Dense(8, 3)
        self.last = last

    def construct(self, ids: Any) -> Any:
        output, (hidden, _) = self.lstm(self.embedding(ids))
        return self.fc(output.mean(1)) + self.fc(ops.cat([hidden[-2], hidden[self.last]], -1))


class TorchTied(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = tnn.Embedding(7, 4), tnn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen = tnn.Linear(4, 4).requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.frozen(self.embedding(ids))
        return {"logits": self.head(y), "cut": y.detach().sum(-1), "ids": ids + 1}


class Tied(nn.Cell):
    def __init__(self, freeze: bool = True, cut: bool = True) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Dense(4, 7, has_bias=False)
        self.head.weight = self.embedding.embedding_table
        self.frozen = nn.Dense(4, 4)
        for parameter in self.frozen.get_parameters() if freeze else ():
            parameter.requires_grad = False
        self.cut = cut

    def construct(self, ids: Any) -> Any:
        y = self.frozen(self.embedding(ids))
        cut = ops.stop_gradient(y) if self.cut else y
        return {"logits": self.head(y), "cut": cut.sum(-1), "ids": ids + 1}


def images() -> Any:
    return (torch.randn(2, 4, 6, 6),)


def sentences() -> Any:
    return torch.randn(2, 5, 8), torch.rand(2, 1, 1, 5) > 0.3


def words() -> Any:
    return (torch.randint(1, 7, (3, 5)),)


RIGHT = {
    "residual": (vision_ports.TorchResidual, Residual, images, True),
    "encoder": (sequence_ports.TorchEncoderLayer, Encoder, sentences, False),
    "lstm": (sequence_ports.TorchLSTMClassifier, LSTMClassifier, words, False),
    "tied": (TorchTied, Tied, words, True),
}
WRONG: dict[str, tuple[Any, Any, Any, bool, list[str]]] = {
    "eps": (vision_ports.TorchResidual, lambda: Residual(eps=1e-3), images, False, ["bn1"]),
    "momentum": (vision_ports.TorchResidual, lambda: Residual(momentum=0.1), images, True, ["bn1"]),
    "pad_mode": (vision_ports.TorchResidual, lambda: Residual(pad_mode="valid"), images, False, ["conv2"]),
    "epsilon": (sequence_ports.TorchEncoderLayer, lambda: Encoder(epsilon=1e-5), sentences, False, ["norm1"]),
    "scale": (sequence_ports.TorchEncoderLayer, lambda: Encoder(scale=0.25), sentences, False, ["attention"]),
    "state": (sequence_ports.TorchLSTMClassifier, lambda: LSTMClassifier(last=-3), words, False, [""]),
    "frozen": (TorchTied, lambda: Tied(freeze=False), words, False, ["frozen"]),
    "stop_gradient": (TorchTied, lambda: Tied(cut=False), words, False, [""]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_port(name: str) -> None:
    torch.manual_seed(0)
    of_module, of_cell, inputs, in_train_mode = RIGHT[name]
    module, cell, args = of_module(), of_cell(), inputs()
    before = {key: p.asnumpy().copy() for key, p in cell.parameters_and_names()}
    for train in (False, True) if in_train_mode else (False,):
        report = parity.compare(module, cell, args, train=train)
        assert report.ok, failure_text(report)
        assert report.sides == ["mindspore"]
        assert {"output", "parameter gradient"} <= {c.kind for each in report.cells.values() for c in each.comparisons}
        assert any("judged by rounding only" in note for note in report.notes)
    for key, p in cell.parameters_and_names():
        np.testing.assert_array_equal(p.asnumpy(), before[key])
        assert p.dtype == mindspore.float32
    assert not cell.training


@pytest.mark.parametrize("name", WRONG)
def test_wrong_port(name: str) -> None:
    torch.manual_seed(0)
    of_module, of_cell, inputs, train, failing = WRONG[name]
    report = parity.compare(of_module(), of_cell(), inputs(), train=train)
    assert report.failing == failing


def test_an_exception_is_the_failure_of_its_cell() -> None:
    torch.manual_seed(0)
    cell = Encoder()
    cell.norm2.construct = lambda x: ops.matmul(x, ops.ones((3, 3)))
    report = parity.compare(sequence_ports.TorchEncoderLayer(), cell, sentences())
    assert report.failing == ["norm2"]
    assert "raises" in report.cells["norm2"].failures[0].reason


def test_its_framework() -> None:
    framework = framework_of(nn.Dense(2, 2))
    assert framework is not None
    assert framework.name == "mindspore"
