"""Values inside a large network that pass aren't kept; the report is the same as if they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.parity.judging import value_judge
from cellbridge.parity.sides.interpreter_side import InterpreterSide
from cellbridge.parity.sides.records import Array, Key, Records
from cellbridge.parity.sides.run import ReferenceRun, Run, Wanted
from cellbridge.parity.sides.torch_side import TorchSide


class Network(nn.Module):
    def __init__(self, slope: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.act, self.last = nn.Linear(6, 8), nn.LeakyReLU(slope), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.first(x)) + 1.0
        return self.last(x)


X = torch.randn(4, 6, generator=torch.manual_seed(1))


def report_on(slope: float) -> dict[str, Any]:
    report = parity.compare(Network(), from_torch(Network(slope), (X,)), (X,))
    assert report.ok == (slope == 0.1)
    data: dict[str, Any] = report.to_dict()
    del data["origin"]["date"]  # the second may change between two reports
    return data


@pytest.mark.causes
@pytest.mark.parametrize("slope", [0.1, 0.2], ids=["passes", "fails"])
@pytest.mark.every(2)
def test_the_report_is_the_same(slope: float, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = report_on(slope)
    runs: list[tuple[Run, Records]] = []
    run_side = InterpreterSide.run

    def run(side: InterpreterSide, run: Run) -> Records:
        runs.append((run, run_side(side, run)))
        return runs[-1][1]

    monkeypatch.setattr(InterpreterSide, "run", run)
    monkeypatch.setattr(value_judge, "LARGE", 0)
    assert report_on(slope) == expected
    kept = [{key.path for key in records.values} for run, records in runs if run.wanted.passes is not None]
    assert len(kept) == 2
    assert all(paths == ({""} if slope == 0.1 else {"", "act"}) for paths in kept)


def test_a_run_keeps_only_what_does_not_pass() -> None:
    truth = TorchSide("torch", Network(), (X,), {}).run(Run("float64"))
    asked: list[Key] = []

    def passes(key: Key, value: Array) -> bool:
        asked.append(key)
        np.testing.assert_allclose(value, truth.values[key], rtol=1e-12)
        return key.path != "act"

    run = Run("float64", Wanted(passes=passes), ReferenceRun.of(truth, truth.gradients.cotangents), truth)
    records = InterpreterSide("interpreter", from_torch(Network(), (X,)), (X,), {}).run(run)
    assert set(asked) == set(truth.values)
    assert {key.path for key in records.values} == {"act"}
