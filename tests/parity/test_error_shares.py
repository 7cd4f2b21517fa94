"""The shares of Cells in the error of a network: they add up to it, but for what is of second order."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.judging import error_shares
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.error_shares import ErrorShares


class Block(nn.Module):
    """A Cell with a Cell inside, and ops of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.factor = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        return torch.sigmoid(h @ self.weight) * h + self.factor * x


class Network(nn.Module):
    """Two blocks, one of which is called twice; values are used in several places, and are two outputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = Block(), Block(), nn.Linear(6, 3)
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.first(x)
        y = self.second(h * self.factor) + h
        y = self.second(0.3 * y) * h
        return self.head(y), h


def change(network: Network, size: float) -> None:
    """Plant faults in a Cell, in its parent's own ops, in the root's, and in a parameter."""
    network.first.norm.eps += size
    network.first.factor += size
    network.factor += size
    network.second.weight.data[0] += size


def compared(size: float, loss: Callable[..., torch.Tensor] | None = None, grads: bool = True) -> Report:
    reference = Network()
    candidate = copy.deepcopy(reference)
    change(candidate, size)
    x = torch.randn(2, 4, 6, generator=torch.manual_seed(1))
    return parity.compare(reference, candidate, (x,), loss=loss, grads=grads)


def shares(report: Report) -> ErrorShares:
    (error_shares,) = report.error_shares
    return error_shares


def test_the_rest_is_of_second_order() -> None:
    large, small = shares(compared(1e-3)), shares(compared(1e-4))
    assert set(large.cells) >= {"", "first", "first.norm", "second"}
    for path in ("", "first", "first.norm", "second"):
        assert large.cells[path] / small.cells[path] == pytest.approx(10, rel=0.1)
    assert abs(small.unexplained) < 0.05 * max(map(abs, small.cells.values()))
    assert large.unexplained / small.unexplained == pytest.approx(100, rel=0.3)
    assert small.total == pytest.approx(sum(small.cells.values()) + small.unexplained)
    assert (small.side, small.check, small.loss) == ("candidate", "meaning", False)
    assert abs(small.cells.get("head", 0)) < 1e-10
    assert abs(small.cells.get("second.norm", 0)) < 1e-10


def test_how_the_error_travels_is_recorded_in_the_order_of_execution() -> None:
    reference = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid(), nn.LayerNorm(6), nn.Linear(6, 3))
    candidate = copy.deepcopy(reference)
    candidate[2].eps = 0.5
    x = torch.randn(4, 6, generator=torch.manual_seed(1))
    report = parity.compare(reference, candidate, (x,))
    errors = shares(report).end_to_end
    assert list(errors) == ["0", "1", "2", "3", ""]
    assert max(errors["0"], errors["1"]) < 1e-14
    with torch.no_grad():
        truth, wrong = (module.double()[:3](x.double()) for module in (reference, candidate))
    assert errors["2"] == pytest.approx(float((wrong - truth).abs().max() / truth.abs().max()))
    assert errors["3"] == errors[""]
    ends = {path for path, cell in report.cells.items() for c in cell.outputs if c.feeding == "end to end"}
    assert ends == {""}  # the values inside are judged isolated


def test_values_inside_are_not_kept_where_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_shares, "MAX_BYTES", 100)
    assert shares(compared(1e-3)).end_to_end == {}


def test_the_error_is_that_of_the_loss() -> None:
    def loss(outputs: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return outputs[0].square().mean() + outputs[1].sin().sum()

    error_shares = shares(compared(1e-5, loss))
    reference, candidate = Network().double(), Network()
    change(candidate, 1e-5)
    x = torch.randn(2, 4, 6, generator=torch.manual_seed(1)).double()
    with torch.no_grad():
        difference = float(loss(candidate.double()(x)) - loss(reference(x)))
    assert error_shares.loss
    assert error_shares.total == pytest.approx(difference, rel=1e-3)
    assert abs(error_shares.unexplained) < 1e-3 * abs(error_shares.total)


@pytest.mark.parametrize(("size", "grads"), [(0.0, True), (1e-3, False)])
@pytest.mark.every(2)
def test_there_are_none_without_a_failure_or_without_gradients(size: float, grads: bool) -> None:
    report = compared(size, grads=grads)
    assert report.ok == (size == 0)
    assert report.error_shares == []
    assert report.to_dict()["error_shares"] == []


def test_a_wrong_backward_has_no_share() -> None:
    class Wrong(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + 3 * (x - x.detach())

    class Right(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    report = parity.compare(nn.Sequential(Right()), nn.Sequential(Wrong()), (torch.randn(3, 4),))
    assert report.failing == ["0"]
    assert report.error_shares == []


def test_an_output_of_another_shape_has_no_error_to_share() -> None:
    class Cut(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:2]

    report = parity.compare(nn.Sequential(nn.Identity()), nn.Sequential(Cut()), (torch.randn(3, 4),))
    assert not report.ok
    assert report.error_shares == []


def test_several_inputs_keep_the_shares_of_the_first_that_fails() -> None:
    reference, candidate = nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU6())
    inputs = [torch.ones(3), torch.tensor([1.0, 7.0, 8.0]), torch.tensor([9.0, 9.0, 9.0])]
    report = parity.compare(reference, candidate, (inputs[0],), more_inputs=[((x,), {}) for x in inputs[1:]])
    error_shares = shares(report)
    assert error_shares.cells == {"0": pytest.approx(error_shares.total)}
    assert report.failing == ["0"]
