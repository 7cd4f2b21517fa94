"""Boundaries that one tensor crosses share an array, and what is changed in place doesn't change the records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge.parity.sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Key, Records
from cellbridge.parity.sides.run import ReferenceRun, Run
from cellbridge.parity.sides.torch_side import TorchSide

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def records(module: nn.Module, dtype: str = "float64", feed: Records | None = None) -> Records:
    run = Run(dtype)
    if feed is not None:
        run = Run(dtype, reference=ReferenceRun.of(feed, feed.gradients.cotangents), feed=feed)
    return TorchSide("torch", module, (X,), {}).run(run)


def array(run_records: Records, path: str, kind: str, slot: str = "result") -> Any:
    return run_records.values[Key(path, 0, kind, slot)]


@pytest.mark.parametrize("fed", [False, True])
def test_a_tensor_is_recorded_once(fed: bool) -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2))
    run_records = records(module)
    if fed:
        run_records = records(module, "float32", run_records)
    assert array(run_records, "0.1", INPUT, "input") is not array(run_records, "0.1", OUTPUT)
    if not fed:
        assert array(run_records, "", OUTPUT) is array(run_records, "1", OUTPUT)
        assert (
            array(run_records, "0", OUTPUT)
            is array(run_records, "0.1", OUTPUT)
            is array(run_records, "1", INPUT, "input")
        )
        assert array(run_records, "0", OUTPUT_GRADIENT) is array(run_records, "1", INPUT_GRADIENT, "input")
    np.testing.assert_array_equal(array(run_records, "0", OUTPUT), array(run_records, "1", INPUT, "input"))


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y.mul_(2)
        return self.second(y)  # type: ignore[no-any-return]


def test_what_is_changed_in_place_is_recorded_anew() -> None:
    run_records = records(InPlace())
    before, after = array(run_records, "first", OUTPUT), array(run_records, "second", INPUT, "input")
    np.testing.assert_array_equal(after, 2 * before)


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.mul_(0.5)


class ChangesItsGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(Halved.apply(self.first(x)))  # type: ignore[no-any-return, no-untyped-call]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_backward_pass_that_changes_its_gradient_leaves_the_records_alone(dtype: str) -> None:
    module = ChangesItsGradient()
    truth = records(module)
    kept = {key: value.copy() for key, value in truth.values.items()}
    second_run = records(module, dtype, truth)
    for key, value in kept.items():
        np.testing.assert_array_equal(truth.values[key], value)
        np.testing.assert_allclose(second_run.values[key], value, rtol=1e-5, atol=1e-6)
