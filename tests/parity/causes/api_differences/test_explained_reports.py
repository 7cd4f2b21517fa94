"""Explanations end to end: the report on a network that was ported wrongly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn as torch_nn

from cellbridge.parity import assert_parity, compare
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.errors import ParityError


class Block(torch_nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch_nn.Conv2d(3, 8, 4, bias=False)
        self.bn = torch_nn.BatchNorm2d(8)
        self.act = torch_nn.GELU()
        self.head = torch_nn.Linear(8 * 81, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.bn(self.conv(x))).flatten(1))


class BlockCell(nn.Cell):
    def __init__(self, conv: nn.Cell, bn: nn.Cell, act: nn.Cell) -> None:
        super().__init__()
        self.conv = conv
        self.bn = bn
        self.act = act
        self.head = nn.Dense(8 * 81, 5)

    def construct(self, x: Tensor) -> Tensor:
        x = self.act(self.bn(self.conv(x)))
        return self.head(x.view(x.shape[0], -1))


def conv(**more: object) -> nn.Conv2d:
    return nn.Conv2d(3, 8, 4, **({"pad_mode": "valid"} | more))


INPUTS = (torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0)),)


def flowed(text: str) -> str:
    """The text of a report without its line breaks."""
    return " ".join(text.split())


@pytest.mark.causes
def test_other_shapes_are_explained_where_the_parent_raises() -> None:
    """The convolution's output has another shape, and then Dense raises: its inputs are too long."""
    cell = BlockCell(conv(pad_mode="same"), nn.BatchNorm2d(8), nn.GELU(False))
    line = (
        "Conv2d: pad_mode='same' in the candidate, padding=0 in the reference -> (2,8,12,12) against (2,8,9,9); "
        'write pad_mode="pad"'
    )
    report = compare(Block(), cell, INPUTS)
    assert report.cells["conv"].explanations == [line]
    assert {path: cell.explanations for path, cell in report.cells.items() if cell.explanations} == {"conv": [line]}
    with pytest.raises(ParityError) as raised:
        report.raise_if_failed()
    assert f"in the APIs: {line}" in flowed(str(raised.value))


def test_a_child_that_raises_is_explained() -> None:
    """A layer for other channels can't be run at all."""
    cell = BlockCell(conv(), nn.BatchNorm2d(4), nn.GELU(False))
    report = compare(Block(), cell, INPUTS)
    line = "BatchNorm2d: num_features=4 in the candidate, num_features=8 in the reference; write num_features=8"
    assert report.cells["bn"].explanations == [line]


def test_every_wrong_layer_is_explained() -> None:
    cell = BlockCell(conv(), nn.BatchNorm2d(8, momentum=0.1, eps=1e-3), nn.GELU())
    report = compare(Block(), cell, INPUTS, train=True)
    assert {path: cell.explanations for path, cell in report.cells.items() if cell.explanations} == {
        "bn": [
            "BatchNorm2d: momentum=0.1 (the old statistic's weight) in the candidate, momentum=0.1 (the "
            "new one's) in the reference; "
            "write momentum=0.9",
            "BatchNorm2d: eps=0.001 in the candidate, eps=1e-5 in the reference; write eps=1e-5",
        ],
        "act": [
            "GELU: approximate=True in the candidate, approximate='none' in the reference; write approximate=False"
        ],
    }


def test_a_wrong_momentum_alone_shows_in_the_statistics() -> None:
    with pytest.raises(ParityError) as raised:
        assert_parity(Block(), BlockCell(conv(), nn.BatchNorm2d(8, momentum=0.1), nn.GELU(False)), INPUTS, train=True)
    assert "momentum=0.1 (the new one's) in the reference; write momentum=0.9" in flowed(str(raised.value))


def test_a_right_port_is_not_explained() -> None:
    report = compare(Block(), BlockCell(conv(), nn.BatchNorm2d(8), nn.GELU(False)), INPUTS, train=True)
    assert report.ok
    assert not any(cell.explanations for cell in report.cells.values())


class Product(nn.Cell):
    """A Dense layer with a backward pass by hand."""

    def __init__(self, factor: float, listed: bool) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.zeros((4, 4), np.float32)))
        self.factor = factor
        if listed:
            self.internal_params = [self.weight]

    def construct(self, x: Tensor) -> Tensor:
        return ops.matmul(x, self.weight.T)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> object:
        return (ops.matmul(dout, self.weight),), {self.weight: self.factor * ops.matmul(dout.T, x)}


def test_a_backward_pass_that_says_nothing_of_parameters() -> None:
    module, x = torch_nn.Linear(4, 4, bias=False), torch.randn(5, 4)
    assert compare(module, Product(1.0, listed=True), x).ok
    (explanation,) = compare(module, Product(1.0, listed=False), x).cells[""].explanations
    assert explanation.startswith("its bprop returns no gradients of its Parameters: list them in internal_params")
    # the outputs are right, so that the weight isn't stored the other way
    assert not compare(module, Product(0.9, listed=True), x).cells[""].explanations


class Normalized(nn.Cell):
    """A BatchNorm written by hand, in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = (Parameter(Tensor(np.zeros(4, np.float32))) for _ in range(2))
        self.moving_mean = Parameter(Tensor(np.zeros(4, np.float32)), requires_grad=False)
        self.moving_variance = Parameter(Tensor(np.ones(4, np.float32)), requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        return (x - self.moving_mean) / ops.sqrt(self.moving_variance + 1e-5) * self.weight + self.bias


def test_statistics_that_were_not_carried_over_are_named_with_what_to_write() -> None:
    module, x = torch_nn.BatchNorm1d(4), torch.randn(5, 4)
    module(x * 3 + 1)
    weights = {"moving_mean": "running_mean", "moving_variance": "running_var"}
    report = compare(module, Normalized(), x)
    (explanation,) = report.cells[""].explanations
    assert explanation.startswith("moving_mean, moving_variance kept the Cell's own values")
    assert explanation.endswith(f"weights={weights}")
    assert compare(module, Normalized(), x, weights=weights).ok
