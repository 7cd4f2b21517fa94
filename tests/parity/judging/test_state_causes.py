"""The cause of a Cell that fails in a later call: what it keeps, or doesn't keep, from the calls before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.cause import Cause
from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime import nn as cells
from cellbridge.runtime import ops

pytestmark = pytest.mark.causes

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class Counter(nn.Module):
    """Counts its calls, in a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.tanh() * self.calls


class Growing(nn.Module):
    """Adds what it computed before."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.cache.append(x.tanh())
        return torch.stack(self.cache).sum(0)


class Scale(nn.Module):
    """Divides by the size of the first input, or of each."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.first, self.scale = first, None

    def forward(self, x: Tensor) -> Tensor:
        if self.scale is None or not self.first:
            self.scale = x.abs().mean()
        return x / self.scale


class Moving(nn.Module):
    """Subtracts a moving mean that is no buffer; it starts at zero, or with the first mean."""

    def __init__(self, rate: float, *, at_zero: bool = True) -> None:
        super().__init__()
        self.rate, self.mean = rate, torch.zeros(3) if at_zero else None

    def forward(self, x: Tensor) -> Tensor:
        new = x.detach().mean(0)
        y = x if self.mean is None else x - self.mean
        self.mean = new if self.mean is None else self.mean * (1 - self.rate) + new * self.rate
        return y


def network(inner: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), inner, nn.Linear(3, 2))


def only_cause(report: Report) -> Cause:
    assert report.failing == ["1"], str(report)
    (cause,) = report.cells["1"].causes
    assert cause.error < 1e-12
    assert cause.proof in " ".join(str(report).split())
    return cause


@pytest.mark.parametrize(
    ("reference", "candidate", "summary"),
    [
        (Plain(), Counter(), "the candidate keeps self.calls from one call to the next, the reference doesn't"),
        (Counter(), Plain(), "the reference keeps self.calls from one call to the next, the candidate doesn't"),
        (Plain(), Growing(), "the candidate keeps self.cache from one call to the next, the reference doesn't"),
    ],
    ids=["counter", "counter of the reference", "list"],
)
@pytest.mark.every(3)
def test_what_one_side_keeps(reference: nn.Module, candidate: nn.Module, summary: str) -> None:
    cause = only_cause(parity.compare(network(reference), network(candidate), (X,)))
    assert (cause.kind, cause.summary, cause.calls) == ("state", summary, 1)
    assert cause.fix


def test_a_flag_that_makes_the_reference_keep_the_same() -> None:
    reference, candidate = (network(Scale(first=first)) for first in (False, True))
    assert only_cause(parity.compare(reference, candidate, (X,))).attribute == "first"


def test_a_value_that_is_out_of_date() -> None:
    class Keeps(Scale):
        def forward(self, x: Tensor) -> Tensor:
            if self.scale is None:
                self.scale = x.abs().mean()
            return x / self.scale

    reference, candidate = network(Scale(first=False)), network(Keeps(first=False))
    cause = only_cause(parity.compare(reference, candidate, (X,)))
    needed = "the candidate keeps self.scale from one call to the next, the reference keeps something else there"
    assert cause.summary == needed


def test_an_attribute_that_shows_in_the_second_call() -> None:
    cause = only_cause(parity.compare(network(Moving(0.1)), network(Moving(0.3)), (X,)))
    assert (cause.kind, cause.attribute, cause.candidate_value) == ("attribute", "rate", 0.3)


def test_a_state_that_shows_in_the_third_call() -> None:
    class Other(Moving):
        def forward(self, x: Tensor) -> Tensor:
            new = x.detach().mean(0)
            y = x if self.mean is None else x - self.mean
            self.mean = new if self.mean is None else (self.mean + new) / 2
            return y

    reference, candidate = (network(kind(0.1, at_zero=False)) for kind in (Moving, Other))
    assert parity.compare(reference, candidate, (X,)).ok
    cause = only_cause(parity.compare(reference, candidate, (X,), probe=True))
    assert cause.summary == "a call leaves another self.mean in the candidate than in the reference"
    assert (cause.calls, cause.proof) == (2, "without that, after 2 calls before, the Cells agree exactly in outputs")


def test_calls_before_compute_with_their_own_values() -> None:
    """A Cell that keeps what it got first fails by itself, not only end to end."""
    reference, candidate = network(Scale(first=False)), network(Scale(first=True))
    report = parity.compare(reference, candidate, (X,))
    assert {c.feeding for c in report.cells["1"].failures} == {"isolated"}


class PortOfPlain(cells.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.last: CellTensor | None = None

    def construct(self, x: CellTensor) -> CellTensor:
        y = ops.tanh(x)
        if self.last is not None:
            y = y + self.last
        self.last = y
        return y


class PortOfNetwork(cells.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.activation, self.last = cells.Dense(3, 3), PortOfPlain(), cells.Dense(3, 2)

    def construct(self, x: CellTensor) -> CellTensor:
        return self.last(self.activation(self.first(x)))


def test_a_table_that_is_too_short_for_the_next_call() -> None:
    class Positions(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.arange(x.shape[1])[:, None]

    class FirstPositions(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.positions = getattr(self, "positions", torch.arange(x.shape[1]))
            return x + self.positions[:, None]

    reference, candidate = network(Positions()), network(FirstPositions())
    report = parity.compare(reference, candidate, (torch.randn(2, 7, 3),), probe=True)
    assert "in a second call with size 1 in place of 7" in " ".join(str(report).split())
    (cause,) = report.cells[""].causes  # with one row, which every table is long enough for, no Cell alone is wrong
    assert cause.summary == "the candidate keeps 1.positions from one call to the next, the reference doesn't"


def test_a_table_that_raises_after_another_call_is_no_size_that_is_not_taken() -> None:
    class Positions(nn.Module):
        def __init__(self, keeps: bool) -> None:
            super().__init__()
            self.keeps = keeps
            self.positions: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            if self.positions is None or not self.keeps:
                self.positions = torch.arange(x.shape[1])
            return x + self.positions[: x.shape[1], None]

    right, wrong = network(Positions(False)), network(Positions(True))
    report = parity.compare(right, wrong, (torch.randn(2, 7, 3),), probe=True, diagnose_seconds=0)
    assert "raises RuntimeError" in str(report)
    assert not report.ok
    assert parity.compare(right, network(Positions(False)), (torch.randn(2, 7, 3),), probe=True).ok


def test_what_a_port_keeps() -> None:
    names = {"first": "0", "activation": "1", "last": "2"}
    report = parity.compare(network(Plain()), PortOfNetwork(), (X,), cells=names)
    assert only_cause(report).summary == (
        "the candidate keeps self.last from one call to the next, the reference doesn't"
    )


def test_nothing_is_named_where_the_state_explains_nothing() -> None:
    class Counts(Plain):
        """Counts its calls for nothing, and computes something else on other inputs."""

        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x.tanh() * (1.0 if torch.equal(x, X.to(x.dtype)) else 1.5)

    report = parity.compare(nn.Sequential(Plain()), nn.Sequential(Counts()), (X,))
    assert report.failing == ["0"]
    assert not report.cells["0"].causes
