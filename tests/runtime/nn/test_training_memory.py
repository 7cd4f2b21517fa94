"""Training goes on for hundreds of steps in the memory of the first ones; and a leak would be noticed."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import Tensor, amp, grad, nn, ops, value_and_grad

STEPS = 300
FEW = 10  # objects that may be left after fifty steps; one a step is a leak
ALLOWED = 40 * 1024  # bytes; if every step kept one tensor of one element, it would be more

RNG = np.random.default_rng(0)
DATA = [Tensor(RNG.normal(size=(4, 3)).astype(np.float32)) for _ in range(4)]
LABELS = [Tensor(RNG.normal(size=(4, 1)).astype(np.float32)) for _ in range(4)]


@pytest.fixture(autouse=True, scope="module")
def _objects_of_other_tests_are_left_out() -> Iterator[None]:
    """Looking through the objects of all other tests would take most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def growth(step: Callable[[int], Any], steps: int) -> int:
    """By how many bytes the memory in use grows over the steps, after a few that aren't counted."""
    for i in range(5):
        step(i)
    tracemalloc.start()
    try:
        for i in range(20):
            step(i)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(steps):
            step(i)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def network() -> nn.Cell:
    return nn.SequentialCell([nn.Dense(3, 2), nn.Dropout(p=0.1), nn.Dense(2, 1)]).set_train()


def hooked(net: nn.Cell) -> nn.Cell:
    net.register_forward_pre_hook(lambda cell, inputs: None)
    net.register_forward_hook(lambda cell, inputs, output: output * 1.0)
    net[2].register_backward_pre_hook(lambda cell, grad_output: None)
    net[2].register_backward_hook(lambda cell, grad_input, grad_output: grad_input)
    net[0].weight.register_hook(lambda gradient: gradient * 1.0)
    return net


def train_cell() -> Callable[[int], Any]:
    net = hooked(network())
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9, weight_decay=1e-4, loss_scale=1024.0)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, sens=1024.0)
    return lambda i: step(DATA[i % 4], LABELS[i % 4])


def dynamic_scale() -> Callable[[int], Any]:
    net = network()
    update = nn.DynamicLossScaleUpdateCell(2.0**127, 2, 5)
    with_loss = nn.WithLossCell(net, nn.MSELoss())
    step = nn.TrainOneStepWithLossScaleCell(with_loss, nn.Adam(net.trainable_params(), 0.01), update)
    return lambda i: step(DATA[i % 4], LABELS[i % 4])


def own_loop() -> Callable[[int], Any]:
    """What people write themselves: scaled, clipped, and a forward run before the gradient."""
    net, loss_fn = network().set_grad(), nn.MSELoss()
    optimizer, scaler = nn.SGD(net.trainable_params(), 0.01), amp.DynamicLossScaler(1024, 2, 50)
    last: list[Any] = []

    def forward(x: Any, y: Any) -> Any:
        loss = loss_fn(net(x), y)
        return scaler.scale(loss), loss

    def step(i: int) -> None:
        x, y = DATA[i % 4], LABELS[i % 4]
        last[:] = [net(x)]
        (_, loss), gradients = value_and_grad(forward, None, optimizer.parameters, has_aux=True)(x, y)
        gradients = scaler.unscale(gradients)
        finite = amp.all_finite(gradients)
        if finite:
            optimizer(ops.clip_by_global_norm(gradients, 1.0))
        scaler.adjust(finite)
        last.append(loss)

    return step


def statistics() -> Callable[[int], Any]:
    """Parameters that are written to while a gradient is computed, and a Cell with its own backward pass."""

    class Halved(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 0.5, x

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            return (dout[0] * 0.5,)

    net = nn.BatchNorm1d(3).set_train()
    halved = Halved()
    gradient = grad(lambda x: halved(net(x))[0], None, net.trainable_params())
    return lambda i: gradient(DATA[i % 4])


def failing() -> Callable[[int], Any]:
    """Every step raises in the backward pass; a second derivative is asked for too."""
    net = network()
    net[0].register_backward_hook(lambda cell, gi, go: {}["missing"])

    def step(i: int) -> None:
        with pytest.raises(KeyError):
            grad(net, None, net.trainable_params())(DATA[i % 4])
        grad(grad(lambda x: (x * x * x).sum()))(DATA[i % 4])

    return step


@pytest.mark.slow
def test_hundreds_of_steps_take_no_more_memory() -> None:
    assert growth(train_cell(), STEPS) < ALLOWED


def objects_after(step: Callable[[int], Any], steps: int) -> int:
    """By how many the objects grow that Python's garbage collector knows."""
    for i in range(5):
        step(i)
    gc.collect()
    before = len(gc.get_objects())
    for i in range(steps):
        step(i)
    gc.collect()
    return len(gc.get_objects()) - before


@pytest.mark.parametrize("make", [train_cell, dynamic_scale, own_loop, statistics, failing])
@pytest.mark.every(3)
def test_no_objects_are_left(make: Callable[[], Callable[[int], Any]]) -> None:
    assert objects_after(make(), 50) < FEW


@pytest.mark.parametrize("kept", ["numbers", "hooks"])
@pytest.mark.every(2)
def test_a_leak_is_noticed(kept: str) -> None:
    net, held = nn.Dense(3, 1), []

    def step(i: int) -> None:
        if kept == "hooks":
            net.register_forward_hook(lambda cell, inputs, output: None)
        else:
            held.append(net(DATA[0]).sum())

    assert growth(step, 250) > ALLOWED
    assert objects_after(step, 50) >= FEW, "what was there before may go meanwhile, but not so much"


def test_results_that_are_kept_keep_nothing_else() -> None:
    """A loss is a tensor with an empty tape, fewer than ten objects; the step it came from has over a hundred."""
    step, losses = train_cell(), []
    assert objects_after(lambda i: losses.append(step(i)), 50) < 50 * 10
