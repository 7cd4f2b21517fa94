"""Compiled training steps whose network changes between calls, outside of the step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cellbridge.runtime as ms
from cellbridge.runtime import optim
from cellbridge.runtime.train_step import train_step
from cellbridge.runtime.train_step.train_step import compile_train_step

X, Y = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3), np.ones((5, 2), np.float32)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many steps were compiled so far."""
    made: list[Any] = []
    compiled_step = train_step.CompiledStep

    def counted(*args: Any) -> Any:
        made.append(args)
        return compiled_step(*args)

    monkeypatch.setattr(train_step, "CompiledStep", counted)
    return lambda: len(made)


def network() -> ms.nn.SequentialCell:
    return ms.nn.SequentialCell(ms.nn.Dense(3, 4), ms.nn.Tanh(), ms.nn.Dense(4, 2))


def test_two_steps_train_parts_of_a_network_in_turn_and_are_compiled_twice_at_most(
    compilations: Callable[[], int],
) -> None:
    net = network()
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for tensor, parameter in zip(module.parameters(), net.get_parameters(), strict=True):
        tensor.data = torch.from_numpy(parameter.asnumpy().copy())
    parts = ["0.*"], ["2.*"]
    steps = [compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.1), frozen=part) for part in parts]
    optimizers = [torch.optim.SGD(module[i].parameters(), 0.1) for i in (2, 0)]
    for _ in range(4):
        for step, optimizer in zip(steps, optimizers, strict=True):
            module.zero_grad()
            loss = nn.functional.mse_loss(module(torch.from_numpy(X)), torch.from_numpy(Y))
            loss.backward()
            optimizer.step()
            np.testing.assert_allclose(step(X, Y), loss.detach(), rtol=1e-5)
            step.write_back()
    assert compilations() <= 2 * len(steps)


def test_statistics_that_two_steps_move_are_the_same_to_both() -> None:
    ms.set_seed(0)  # some weights make a channel nearly constant, and its normalization a matter of rounding
    net = ms.nn.SequentialCell(ms.nn.Dense(3, 4), ms.nn.BatchNorm1d(4), ms.nn.Dense(4, 2)).set_train()
    eager = copy.deepcopy(net)
    steps = [compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.1), frozen=[f"{i}.*"]) for i in (0, 2)]
    parts = [eager[2].trainable_params(), eager[0].trainable_params()]
    for _ in range(3):
        for step, part in zip(steps, parts, strict=True):
            ms.nn.TrainOneStepCell(ms.nn.WithLossCell(eager, ms.nn.MSELoss()), optim.SGD(part, 0.1))(
                ms.Tensor(X), ms.Tensor(Y)
            )
            step(X, Y)
            step.write_back()
    for name in ("moving_mean", "moving_variance"):
        np.testing.assert_allclose(getattr(net[1], name).asnumpy(), getattr(eager[1], name).asnumpy(), rtol=1e-5)


def test_what_is_trained_and_what_the_optimizer_keeps_can_be_given_other_values(
    compilations: Callable[[], int],
) -> None:
    net = network()
    optimizer = optim.Adam(net.trainable_params(), 0.1)
    step = compile_train_step(net, ms.nn.MSELoss(), optimizer)
    first = [step(X, Y) for _ in range(2)]
    begun = {**step.parameters(), **step.optimizer_state()}
    step.write_back()
    fresh = compile_train_step(network(), ms.nn.MSELoss(), lambda p: optim.Adam(p, 0.1)).state()
    for tensor in step._state_tensors.values():
        start = tensor.parameter.asnumpy() * 0.5 if tensor.role == "network" else fresh[tensor.name]
        tensor.parameter.set_data(ms.Tensor(start))
    optimizer.learning_rate.set_data(0.05)
    assert step.learning_rate == pytest.approx(0.1)  # until the next call
    given = {name: array * np.float32(0.5) for name, array in begun.items() if name in step.parameters()}
    alone = network()
    for name, parameter in alone.parameters_and_names():
        parameter.set_data(ms.Tensor(given[name]))
    step_of_copy = compile_train_step(alone, ms.nn.MSELoss(), lambda p: optim.Adam(p, 0.05))
    assert [step(X, Y) for _ in range(2)] == [step_of_copy(X, Y) for _ in range(2)] != first
    assert step.learning_rate == pytest.approx(0.05)
    assert compilations() == 2


def test_what_is_written_back_is_no_change(compilations: Callable[[], int]) -> None:
    net = network()
    step = compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.1), frozen=["0.*"])
    for _ in range(3):
        step(X, Y)
        step.write_back()
    assert compilations() == 1


def test_what_a_file_gave_is_used_until_the_network_is_given_other_values(tmp_path: Any) -> None:
    net = network()
    step = compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.0), frozen=["0.*"])
    first = step(X, Y)
    step.save(tmp_path / "state")
    net[0].weight.set_data(net[0].weight * 2)
    second = step(X, Y)
    assert second != first
    net[0].weight.set_data(net[0].weight * 2)
    step.load(tmp_path / "state")
    assert step(X, Y) == first
    net[0].weight.set_data(net[0].weight / 2)
    assert step(X, Y) == second


def test_a_parameter_that_is_frozen_later_is_left_as_it_is() -> None:
    net = network()
    step = compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.Adam(p, 0.1))
    step(X, Y)
    net[0].weight.requires_grad = False
    before = step.parameters()
    step(X, Y)
    after = step.parameters()
    assert np.array_equal(before["0.weight"], after["0.weight"])
    assert not np.array_equal(before["2.weight"], after["2.weight"])


def test_hooks_that_are_registered_later_count() -> None:
    net = network()
    step = compile_train_step(net, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.0))
    step(X, Y)
    net.register_forward_hook(lambda cell, args, output: output * 0)
    assert float(step(X, Y)) == 1.0  # the mean square of Y, which is all ones


def test_an_attribute_that_is_set_later_counts() -> None:
    class Scaled(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = ms.nn.Dense(3, 2)
            self.factor = 1.0

        def construct(self, x: Any) -> Any:
            return self.dense(x) * self.factor

    net = Scaled()
    step = compile_train_step(net, lambda output, y: output.sum(), lambda p: optim.SGD(p, 0.0))
    first = step(X, Y)
    net.factor = 3.0
    np.testing.assert_allclose(step(X, Y), 3 * first, rtol=1e-5)
