"""Recurrent layers that were computed before: the same results for the same operands, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.parity.sides import remembered
from cellbridge.parity.sides.interpreter_side import InterpreterSide
from cellbridge.parity.sides.run import Run


def side(layer: nn.Module, x: torch.Tensor) -> InterpreterSide:
    return InterpreterSide("a side", from_torch(layer, (x,)), (x,), {})


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the recurrent ops that are computed rather than remembered."""
    names: list[str] = []
    monkeypatch.setattr(remembered, "_results", type(remembered._results)())

    def counted(op: Any, *rest: Any) -> Any:
        names.extend([op.name] if op.traits.recurrent else [])
        return evaluate(op, *rest)

    evaluate = remembered.evaluate
    monkeypatch.setattr(remembered, "evaluate", counted)
    return names


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.every(2)
def test_a_layer_is_computed_once_and_again_if_anything_differs(kind: type[nn.Module], computed: list[str]) -> None:
    torch.manual_seed(0)
    layer, x = kind(4, 5), torch.randn(6, 2, 4)
    run = Run("float64")
    first, second = side(layer, x).run(run), side(layer, x).run(run)
    assert len(computed) == 2  # forward and backward
    for key, array in first.values.items():
        np.testing.assert_array_equal(second.values[key], array)
        second.values[key][...] = 7.0  # belongs to this run alone
    with torch.no_grad():
        layer.weight_hh_l0[0, 0] += 1e-3
    changed = side(layer, x).run(run)
    assert len(computed) == 4
    assert any(not np.array_equal(changed.values[key], array) for key, array in first.values.items())
    side(layer, x + 1e-3).run(run)
    side(layer, x).run(Run("float32"))
    assert len(computed) == 8


def test_what_is_kept_is_bounded(computed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_BYTES", 2000)
    for steps in range(4, 9):
        side(nn.RNN(3, 3), torch.randn(steps, 2, 3)).run(Run("float64"))
    kept = remembered._results
    assert kept.bytes == sum(map(remembered._size, kept._by_key.values()))
    assert 0 < kept.bytes <= 2000


def test_keeping_a_result_takes_no_longer_the_more_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    results, calls = remembered.Results(), []
    size = remembered._size
    monkeypatch.setattr(remembered, "_size", lambda arrays: calls.append(1) or size(arrays))
    for number in range(500):
        results.add((number,), (np.zeros(4),))
    assert len(calls) == 500
