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
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.train_step.train_step import TrainStep

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


def compiled_step(program: Program, provider: str, **options: Any) -> TrainStep:
    return ms.compile_train_step(
        program, ms.nn.CrossEntropyLoss(), lambda p: optim.SGD(p, 0.1, 0.9), provider=provider, **options
    )


def is_cuda_graph(step: TrainStep) -> bool:
    assert step._compiled is not None
    return step._compiled.resident.executable.session.cuda_graph


def test_a_step_is_a_cuda_graph_that_reads_what_it_is_given() -> None:
    pooled = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2, 1), nn.Flatten())
    program = from_torch(nn.Sequential(pooled, nn.Linear(8, 5)).train(), (torch.from_numpy(X),), train=True)
    rng = np.random.default_rng(1)
    on_gpu, on_cpu = steps = [compiled_step(program, provider) for provider in ("cuda", "cpu")]
    for number in range(5):
        x, y = rng.standard_normal(X.shape, np.float32), rng.integers(0, 5, Y.shape)
        if number == 3:  # it has been captured in both directions
            for step in steps:
                step.learning_rate = 0.01
                step.step.network.trainable_params()[0].set_data(ms.Tensor(np.full((8, 3, 3, 3), 0.1, np.float32)))
        assert_close(*(step(x, y) for step in steps))
    assert is_cuda_graph(on_gpu)
    assert not is_cuda_graph(on_cpu)
    for name, array in on_cpu.state().items():
        assert_close(on_gpu.state()[name], array)


def test_the_masks_of_a_cuda_graph_differ_in_each_step() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(108, 5)).train()
    program = from_torch(network, (torch.from_numpy(X),), train=True)
    step = ms.compile_train_step(
        program, ms.nn.CrossEntropyLoss(), lambda p: optim.SGD(p, 0.0), provider="cuda"
    )  # with this rate, only the masks change the loss
    losses = {float(step(X, Y)) for _ in range(8)}
    assert is_cuda_graph(step)
    assert len(losses) == 8


def test_batches_of_several_sizes_are_no_cuda_graph() -> None:
    program = from_torch(network(), (torch.from_numpy(X),), train=True, dynamic_shapes=({0: "batch"},))
    steps = [compiled_step(program, provider) for provider in ("cuda", "cpu")]
    for size in (4, 3, 2, 4):
        assert_close(*(step(X[:size], Y[:size]) for step in steps))
    assert not is_cuda_graph(steps[0])


def test_half_precision_stays_on_the_gpu() -> None:
    program = from_torch(network().half(), (torch.from_numpy(X).half(),), train=True)
    step = compiled_step(program, "cuda", loss_scale=8.0)
    losses = [float(step(X.astype(np.float16), Y)) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert is_cuda_graph(step)
