"""The search for causes ends after the same work on each machine; the clock guards it, and the report says so."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.causes import budget
from cellbridge.parity.causes.budget import NODE, PRODUCTS, Budget, BudgetSpentError, work_of
from cellbridge.parity.causes.rebuilding import rebuild
from cellbridge.parity.report.report import Report
from cellbridge.runtime.graph import trace
from cellbridge.runtime.ops import linear, shaping

pytestmark = pytest.mark.causes


class Network(nn.Module):
    def __init__(self, *, eps: float = 1e-5, approximate: str = "none") -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8, eps)
        self.act = nn.GELU(approximate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.act(self.norm(self.first(x)))
        return result


def compared(seconds: float | None = None, **change: Any) -> Report:
    torch.manual_seed(0)
    reference, candidate = Network(), Network(**change)
    candidate.load_state_dict(reference.state_dict())
    return parity.compare(reference, candidate, (torch.randn(3, 4) * 0.01,), diagnose_seconds=seconds)


def causes(report: Report) -> list[str]:
    return [cause.attribute for path in report.failing for cause in report.cells[path].causes]


def slow_clock(seconds: float) -> Callable[[], float]:
    ticks = itertools.count(time.monotonic(), seconds)
    return lambda: next(ticks)


@pytest.mark.parametrize("change", [{"eps": 1e-3}, {"approximate": "tanh"}])
@pytest.mark.usefixtures("opaque_candidates")
@pytest.mark.every(2)
def test_a_slow_clock_changes_no_cause(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = change
    assert causes(compared(**change)) == [name]
    monkeypatch.setattr(time, "monotonic", slow_clock(2.0))
    report = compared(**change)
    assert causes(report) == [name]
    assert not any("was cut" in note for note in report.notes)


@pytest.mark.usefixtures("opaque_candidates")
def test_the_guard_says_that_it_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", slow_clock(2.0))
    report = compared(seconds=7.0, eps=1e-3)
    assert causes(report) == []
    (note,) = [note for note in report.notes if "was cut" in note]
    assert note.startswith("the search for causes was cut after 7 s by --diagnose-seconds: in failing Cell 1 of 1, ")
    assert "the search for causes was cut after 7 s by --diagnose-seconds" in " ".join(str(report).split())


@pytest.mark.usefixtures("opaque_candidates")
def test_the_limit_of_work_is_said_and_is_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "WORK", 20 * NODE)
    monkeypatch.setattr(budget, "RUNS", 0)
    first, second = compared(eps=1e-3), compared(eps=1e-3)
    (note,) = [note for note in first.notes if "was cut" in note]
    assert "at its limit of work (--only PATH searches in one Cell with the whole limit)" in note
    assert note in second.notes
    assert causes(first) == causes(second) == []


def test_a_search_that_comes_to_its_end_says_nothing() -> None:
    report = compared(eps=1e-3)
    assert causes(report) == ["eps"]
    assert not any("search for causes" in note for note in report.notes)


def test_the_work_of_a_program_follows_from_its_sizes() -> None:
    square, elements = np.ones((64, 64)), 64 * 64
    transposed = rebuild(trace(lambda a: shaping.transpose(a, permutation=(1, 0)), (square,)).program)
    assert work_of(transposed) == NODE + 2 * elements
    product = rebuild(trace(linear.matmul, (square, square)).program)
    assert work_of(product) == NODE + 3 * elements + 64**3 / PRODUCTS


def test_nothing_is_spent_beyond_the_limit() -> None:
    given = Budget(work=10)
    given.spend(9)
    given.spend(9)
    with pytest.raises(BudgetSpentError):
        given.spend(1)
    assert given.limit == "work"


def test_a_part_of_a_search_ends_alone() -> None:
    given = Budget(work=100)
    with given.part(0.1) as part:
        part.spend(10)
        with pytest.raises(BudgetSpentError):
            part.spend(1)
    assert not given.is_spent
    assert (given.spent, given.trials) == (10, 1)
    with given.part(1.0) as part:
        assert part.work == 90
