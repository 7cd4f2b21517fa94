"""Copies of what is compiled, by `copy` and `pickle`, and calls from several threads."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, optim

X = Tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
LABELS = Tensor([0, 1, 2, 1], ms.int32)

copied = pytest.mark.parametrize("by", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])


def _step() -> Any:
    ms.set_seed(0)
    network = nn.SequentialCell(nn.Dense(6, 5), nn.BatchNorm1d(5), nn.Dense(5, 3)).set_train()
    return ms.compile_train_step(network, nn.CrossEntropyLoss(), lambda ps: optim.AdamW(ps, lr=0.1), frozen=["0.*"])


@copied
def test_compiled_programs_are_copied(by: Callable[[Any], Any]) -> None:
    compiled = ms.compile(ms.trace(nn.Dense(6, 3), (X,)).program)
    compiled.value_and_grad(X)
    twin = by(compiled)
    np.testing.assert_array_equal(twin(X), compiled(X))
    assert twin.provider == compiled.provider


@copied
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.every(3)
def test_a_copy_of_a_compiled_step_goes_on_by_itself(by: Callable[[Any], Any], before: int) -> None:
    step, alone = _step(), _step()
    losses = [float(alone(X, LABELS)) for _ in range(before + 3)]
    for expected in losses[:before]:
        assert float(step(X, LABELS)) == pytest.approx(expected, rel=1e-6)
    step.learning_rate = alone.learning_rate
    twin = by(step)
    for expected in losses[before:]:
        assert float(twin(X, LABELS)) == pytest.approx(expected, rel=1e-6)
    assert float(step(X, LABELS)) == pytest.approx(losses[before], rel=1e-6)
    twin.write_back()
    for parameter in twin.step.optimizer.parameters:
        original = next(p for p in alone.step.optimizer.parameters if p.name == parameter.name)
        assert original is not parameter


@copied
def test_cells_of_programs_are_copied(by: Callable[[Any], Any]) -> None:
    cell = nn.GraphCell(ms.trace(nn.Dense(6, 3), (X,)).program)
    np.testing.assert_array_equal(by(cell)(X).asnumpy(), cell(X).asnumpy())


def test_threads_take_turns_at_a_step() -> None:
    step, alone = _step(), _step()
    losses: list[float] = []
    threads = [
        threading.Thread(target=lambda: losses.extend(float(step(X, LABELS)) for _ in range(5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(sorted(losses), sorted(float(alone(X, LABELS)) for _ in range(20)), 1e-4, 1e-6)
