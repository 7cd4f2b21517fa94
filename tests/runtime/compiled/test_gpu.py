"""On a GPU, where there is one: `pytest -m gpu`. What runs there is what runs on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch
from cellbridge.runtime import optim
from cellbridge.runtime.compiled.session import best_provider

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu() -> None:
    if best_provider() != "cuda":
        pytest.skip("ONNX Runtime can't use a GPU here")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5)
    ).train()


X, Y = np.random.default_rng(0).standard_normal((4, 3, 6, 6), np.float32), np.array([0, 4, 2, 1])


def assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def test_a_program_and_its_gradient_are_those_of_the_interpreter() -> None:
    program = from_torch(network(), (torch.from_numpy(X),), train=True)
    result, gradients = ms.compile(program).value_and_grad(X)
    expected, truth = program.value_and_grad(X)
    assert_close(result, expected)
    for name, array in truth.parameters.items():
        assert_close(gradients.parameters[name], array)


def test_training_steps_are_those_on_the_cpu() -> None:
    program = from_torch(network(), (torch.from_numpy(X),), train=True)
    steps = [
        ms.compile_train_step(
            program, ms.nn.CrossEntropyLoss(), lambda p: optim.AdamW(p, 1e-3), loss_scale="dynamic", provider=provider
        )
        for provider in ("cuda", "cpu")
    ]
    for _ in range(3):
        assert_close(*(step(X, Y) for step in steps))
    on_gpu, on_cpu = (step.state() for step in steps)
    for name, array in on_cpu.items():
        assert_close(on_gpu[name], array)
