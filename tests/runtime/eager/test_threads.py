"""Gradients of one Cell in several threads at once are those of each call alone."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn, ops
from cellbridge.runtime.tree import leaves

THREADS, CALLS = 8, 30


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 8)
        self.second = nn.Dense(8, 3)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(ops.relu(self.first(x)))


class Doubled(nn.Cell):
    """A Cell with a backward pass of its own, and a Parameter in it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Parameter(Tensor(np.full(4, 2.0, np.float32)), name="scale")

    def construct(self, x: Tensor) -> Tensor:
        return x * self.scale

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> Any:
        return (dout * self.scale,)


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
    ms.set_context(mode=ms.PYNATIVE_MODE)


def _of_weights(network: nn.Cell) -> Callable[[Tensor], Any]:
    return ms.value_and_grad(lambda x: (network(x) ** 2).sum(), None, network.trainable_params())


def _of_all(network: nn.Cell) -> Callable[[Tensor], Any]:
    return ms.value_and_grad(network, 0, network.trainable_params())


def _of_recorded_run(network: nn.Cell) -> Callable[[Tensor], Any]:
    network.set_grad()
    gradient = ms.GradOperation(get_all=True, get_by_list=True)(network, network.trainable_params())
    return lambda x: (network(x), gradient(x))


def _of_hooked(network: nn.Cell) -> Callable[[Tensor], Any]:
    network.first.register_backward_hook(lambda cell, inputs, outputs: None)
    return _of_all(network)


@pytest.mark.every(2)
@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("gradients", [_of_weights, _of_all, _of_recorded_run, _of_hooked])
def test_threads_get_their_own_gradients(mode: int, gradients: Callable[[Any], Any]) -> None:
    ms.set_context(mode=mode)
    network = nn.SequentialCell(Network(), nn.Tanh()) if gradients is not _of_hooked else Network()
    _run_in_threads(gradients(network), (5, 4))


def test_a_backward_of_ones_own() -> None:
    _run_in_threads(_of_all(Doubled()), (5, 4))


def _run_in_threads(function: Callable[[Tensor], Any], shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    inputs = [Tensor(rng.standard_normal(shape).astype(np.float32)) for _ in range(THREADS)]
    expected = [[x.asnumpy() for x in leaves(function(x))] for x in inputs]
    failures: list[str] = []

    def work(number: int) -> None:
        for _ in range(CALLS):
            arrays = [x.asnumpy() for x in leaves(function(inputs[number]))]
            same = [np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(arrays, expected[number], strict=True)]
            if not all(same):
                failures.append(f"thread {number}: {same}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, f"{len(failures)} of {THREADS * CALLS} calls: {failures[0]}"


def test_what_a_thread_keeps_is_neither_copied_nor_pickled() -> None:
    network = Network()
    network.set_grad()
    network(Tensor(np.ones((2, 4), np.float32)))
    copied = copy.deepcopy(network)
    assert network._forward_run is not None
    assert copied._forward_run is None
    copied(Tensor(np.ones((2, 4), np.float32)))
    assert copied._forward_run is not None
    parameter = pickle.loads(pickle.dumps(network.first.weight))
    assert parameter.asnumpy().tolist() == network.first.weight.asnumpy().tolist()
