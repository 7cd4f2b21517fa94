"""The side whose gradients are wrong, by derivatives of each side's own forward pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.report.report import Report
from tests.parity.pairing.ports.faults import FAULTS
from tests.parity.pairing.ports.ports import made

pytestmark = pytest.mark.causes


class Layer(nn.Module):
    """A layer whose gradient is right, scaled by a hook, or stopped; its outputs are the same."""

    def __init__(self, gradient: str) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self._gradient = gradient

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        if self._gradient == "scaled" and y.requires_grad:
            y.register_hook(lambda gradient: gradient * 1.01)  # a capture doesn't see it
        if self._gradient == "stopped":
            y = y.detach()
        return self.fc(y) * x


def report_on(reference: str, candidate: str, train: bool = False) -> Report:
    torch.manual_seed(0)
    first = nn.Sequential(Layer(reference), nn.ReLU(), Layer("right"))
    second = nn.Sequential(Layer(candidate), nn.ReLU(), Layer("right"))
    second.load_state_dict(first.state_dict())
    return parity.compare(first, second, torch.randn(5, 6), train=train)


@pytest.mark.parametrize(
    ("reference", "candidate", "wrong"),
    [
        ("scaled", "right", "reference"),
        ("right", "scaled", "candidate"),
        ("right", "stopped", "candidate"),
        ("stopped", "right", ""),  # the reference means it
        ("scaled", "stopped", ""),  # both are
    ],
)
@pytest.mark.every(6)
def test_the_side_is_named(reference: str, candidate: str, wrong: str) -> None:
    report = report_on(reference, candidate)
    assert report.failing == ["0"]
    assert {path: cell.wrong_side for path, cell in report.cells.items() if cell.wrong_side} == (
        {"0": wrong} if wrong else {}
    )


def test_how_far_it_is_off() -> None:
    cell = report_on("scaled", "right").cells["0"]
    assert 1e-4 < cell.derivative_error < 0.1
    assert cell.to_dict()["wrong_side"] == "reference"
    text = " ".join(str(report_on("scaled", "right")).split())
    assert "wrong side: reference; its gradients aren't the derivative of its own forward pass" in text


def test_wrong_outputs_have_no_wrong_side() -> None:
    torch.manual_seed(0)
    first, second = nn.Sequential(nn.GELU()), nn.Sequential(nn.GELU("tanh"))
    report = parity.compare(first, second, torch.randn(5, 6))
    assert report.failing == ["0"]
    assert not report.cells["0"].wrong_side


def test_a_port_with_a_wrong_backward() -> None:
    fault = FAULTS["gradient only"]
    module, cell, args = made(fault.port)
    fault.change(cell)
    (path,) = fault.at
    assert parity.compare(module, cell, args).cells[path].wrong_side == "cell"
