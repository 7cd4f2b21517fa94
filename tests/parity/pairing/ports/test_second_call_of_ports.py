"""The second call of a port: state that it keeps, and state that only the module keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn as tnn

from cellbridge import parity
from cellbridge.runtime import Parameter, Tensor, nn, ops

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Module(tnn.Module):
    """Keeps a mean of what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = tnn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) - self.mean
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return y


class Port(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Dense(3, 3)
        self.mean = Parameter(ops.zeros((3,)), requires_grad=False)

    def construct(self, x: Any) -> Any:
        y = self.linear(x) - self.mean
        ops.assign(self.mean, self.mean * 0.9 + 0.1 * ops.stop_gradient(x).mean(0))
        return y


class InAttribute(Port):
    """Its mean stands in an attribute, where the module has a buffer."""

    def construct(self, x: Any) -> Any:
        y = self.linear(x) - getattr(self, "kept", self.mean)
        self.kept = self.mean * 0.9 + 0.1 * ops.stop_gradient(x).mean(0)
        ops.assign(self.mean, self.kept)
        return y


class Forgets(Port):
    """Its first call and its updates are right; the second call uses the first call's initial state."""

    def construct(self, x: Any) -> Any:
        if not hasattr(self, "begin"):
            self.begin = Tensor(self.mean.asnumpy())
        y = self.linear(x) - self.begin
        ops.assign(self.mean, self.mean * 0.9 + 0.1 * ops.stop_gradient(x).mean(0))
        return y


class Counts(Port):
    """Keeps a number that the module doesn't have."""

    calls = 0

    def construct(self, x: Any) -> Any:
        self.calls += 1
        return super().construct(x) * self.calls


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("port", [Port, InAttribute])
def test_state_is_carried_over(port: type[Port], train: bool) -> None:
    report = parity.compare(Module(), port(), (X,), train=train)
    assert report.ok, str(report)
    assert any(c.feeding == "second call" for c in report.cells[""].comparisons)


@pytest.mark.parametrize("port", [Forgets, Counts])
def test_a_second_call_that_differs_fails(port: type[Port]) -> None:
    report = parity.compare(Module(), port(), (X,))
    assert not report.ok
    assert {c.feeding for c in report.cells[""].failures} == {"second call"}
    assert "second call" in str(report)


def test_batch_norm_and_dropout_are_carried_over() -> None:
    module = tnn.Sequential(tnn.Linear(3, 3), tnn.BatchNorm1d(3), tnn.Dropout(0.5))
    port = nn.SequentialCell([nn.Dense(3, 3), nn.BatchNorm1d(3), nn.Dropout(p=0.5)])
    assert parity.compare(module, port, (X,), train=True).ok


def test_the_cell_is_left_as_it_was() -> None:
    port = Counts()
    parity.compare(Module(), port, (X,), train=True)
    assert port.calls == 0
    assert not port.mean.asnumpy().any()
