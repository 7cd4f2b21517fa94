"""A whole step of training as one program: forward, backward, loss scale and the optimizer's update, as in Python."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, amp, nn, ops
from cellbridge.runtime.graph import TracedProgram, trace
from cellbridge.runtime.graph.program_runner import ProgramRunner

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 5).astype(np.int32)
STEPS = 4

Array = np.ndarray[Any, Any]
Make = Callable[[list[Parameter]], nn.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "ASGD": lambda p: nn.ASGD(p, 0.1, t0=2),
    "AdaMax": lambda p: nn.AdaMax(p, 0.1, weight_decay=0.02),
    "Adadelta": lambda p: nn.Adadelta(p, 0.7),
    "Adagrad": lambda p: nn.Adagrad(p, learning_rate=0.1),
    "Adam": lambda p: nn.Adam(p, 0.1, weight_decay=0.1),
    "Adam amsgrad, schedule": lambda p: nn.Adam(p, nn.ExponentialDecayLR(0.1, 0.9, 2), use_amsgrad=True),
    "Adam nesterov": lambda p: nn.Adam(p, 0.1, use_nesterov=True),
    "AdamWeightDecay": lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=0.1),
    "FTRL": lambda p: nn.FTRL(p, learning_rate=0.1, l1=0.01, l2=0.1, weight_decay=0.1),
    "Lamb": lambda p: nn.Lamb(p, 0.1, weight_decay=0.1),
    "LazyAdam": lambda p: nn.LazyAdam(p, nn.WarmUpLR(0.1, 3)),
    "Momentum": lambda p: nn.Momentum(p, 0.1, 0.9, weight_decay=0.01),
    "Momentum nesterov, by step": lambda p: nn.Momentum(p, [0.1, 0.2, 0.3, 0.4, 0.5], 0.9, use_nesterov=True),
    "Momentum, groups": lambda p: nn.Momentum(
        [
            {"params": p[:2], "lr": 0.3, "weight_decay": 0.01, "grad_centralization": True},
            {"params": p[2:], "lr": nn.CosineDecayLR(0.0, 1.0, 5)},
        ],
        0.1,
        0.9,
    ),
    "ProximalAdagrad": lambda p: nn.ProximalAdagrad(p, learning_rate=0.1, l1=0.01, l2=0.1),
    "RMSProp": lambda p: nn.RMSProp(p, 0.1, momentum=0.5),
    "RMSProp centered": lambda p: nn.RMSProp(p, 0.01, centered=True),
    "Rprop": lambda p: nn.Rprop(p, 0.1),
    "SGD": lambda p: nn.SGD(p, 0.1),
    "SGD momentum": lambda p: nn.SGD(p, nn.PolynomialDecayLR(0.1, 0.01, 4, 2.0), 0.9, dampening=0.3, weight_decay=0.1),
    "SGD nesterov": lambda p: nn.SGD(p, 0.1, 0.9, nesterov=True),
}


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 6, has_bias=False)  # before the norm, it would have no gradient but rounding errors
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(p=0.3)
        self.head = nn.Dense(6, 3)

    def construct(self, x: Any) -> Any:
        return self.head(self.drop(ops.relu(self.norm(self.fc(x)))))


def with_loss() -> nn.Cell:
    ms.set_seed(0)
    return nn.WithLossCell(Net(), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))


def state(cell: nn.Cell) -> dict[str, Array]:
    return {parameter.name: parameter.asnumpy() for parameter in cell.get_parameters()}


def assert_steps_agree(
    step: nn.Cell, *inputs: Tensor, rtol: float = 2e-5, twin: nn.Cell | None = None
) -> TracedProgram:
    """The steps of a Cell, and those of the program that its twin is traced to, leave the same results and state."""
    twin = twin or copy.deepcopy(step)
    traced = trace(twin, inputs)
    runner = ProgramRunner(traced, interpreted=True)
    for number in range(STEPS):
        ms.set_seed(number)
        expected = step(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        ms.set_seed(number)
        got = runner.run([x.asnumpy() for x in inputs])
        for y, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(y, e.asnumpy(), rtol=rtol, atol=1e-6)
        traced_state, expected_state = state(twin), state(step)
        assert traced_state.keys() == expected_state.keys()
        for name in traced_state:
            np.testing.assert_allclose(
                traced_state[name], expected_state[name], rtol, 1e-6, err_msg=f"{name} after step {number}"
            )
    return traced


def test_every_optimizer_has_a_case() -> None:
    from cellbridge.runtime.nn import optim

    assert {name.split(",")[0].split(" ")[0] for name in OPTIMIZERS} == set(optim.__all__) - {"Optimizer"}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_every_optimizer_is_a_program(name: str) -> None:
    network = with_loss()
    step = nn.TrainOneStepCell(network, OPTIMIZERS[name](network.trainable_params())).set_train()
    traced = assert_steps_agree(step, Tensor(X), Tensor(Y))
    assert "network._backbone.fc.weight" in traced.program.updates
    assert "network._backbone.norm.moving_mean" in traced.program.updates
    assert "optimizer.global_step" in traced.program.updates


def test_frozen_parameters_stay() -> None:
    network = with_loss()
    frozen = network._backbone.fc
    for parameter in frozen.get_parameters():
        parameter.requires_grad = False
    step = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 0.1)).set_train()
    program = assert_steps_agree(step, Tensor(X), Tensor(Y)).program
    assert not program.parameters["network._backbone.fc.weight"].trainable
    assert not [name for name in program.updates if ".fc." in name]


def test_a_fixed_scale_of_the_loss() -> None:
    network = with_loss()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9, weight_decay=0.01, loss_scale=1024.0)
    assert_steps_agree(nn.TrainOneStepCell(network, optimizer, sens=1024.0).set_train(), Tensor(X), Tensor(Y))


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("x", [X, X * np.float32(np.inf)], ids=["finite", "overflow"])
@pytest.mark.every(2)
def test_a_scale_that_follows_overflows(x: Array, shape: tuple[int, ...]) -> None:
    network = with_loss()
    optimizer = nn.Adam(network.trainable_params(), 0.1)
    update = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 3)
    step = nn.TrainOneStepWithLossScaleCell(network, optimizer, update).set_train()
    step.scale_sense = Parameter(np.full(shape, 2.0**10, np.float32), name="scale_sense")
    before = state(step)
    assert_steps_agree(step, Tensor(x), Tensor(Y))
    skipped = step.optimizer.global_step.asnumpy()[0] == 0
    assert skipped == (x is not X)
    after = state(step)
    assert (after["fc.weight"] == before["fc.weight"]).all() == skipped
    assert after["scale_sense"] == (2.0**6 if skipped else 2.0**11)


def test_a_step_that_overflows_between_others_is_left_out() -> None:
    network = with_loss()
    update = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 2)
    step = nn.TrainOneStepWithLossScaleCell(network, nn.Lamb(network.trainable_params(), 0.1), update).set_train()
    twin = copy.deepcopy(step)
    runner = ProgramRunner(trace(twin, (Tensor(X), Tensor(Y))))
    overflows = []
    for number, factor in enumerate((1.0, np.inf, 1.0, 1.0)):
        x = (X * factor).astype(np.float32)
        ms.set_seed(number)
        _, overflow, scale = step(Tensor(x), Tensor(Y))
        ms.set_seed(number)
        _, traced_overflow, traced_scale = runner.run([x, Y])
        assert traced_overflow == overflow.asnumpy()
        assert traced_scale == scale.asnumpy()
        overflows.append(bool(traced_overflow))
        traced_state, expected_state = state(twin), state(step)
        for name in traced_state:
            np.testing.assert_allclose(
                traced_state[name], expected_state[name], 2e-5, 1e-6, err_msg=f"{name} after step {number}"
            )
    assert overflows == [False, True, False, False]


@pytest.mark.parametrize("finite", [[True] * 4 + [False, True, True, False, False] + [True] * 4])
def test_the_dynamic_scaler_is_a_program(finite: list[bool]) -> None:
    scaler, twin = amp.DynamicLossScaler(1024, 2, 3), amp.DynamicLossScaler(1024, 2, 3)

    def adjust(ok: Any, gradient: Any) -> Any:
        unscaled = twin.unscale((gradient,))[0]
        twin.adjust(ok)
        return unscaled

    runner = ProgramRunner(trace(adjust, (Tensor(True), Tensor(X))))
    for flag in finite:
        (unscaled,) = runner.run([np.asarray(flag), X])
        np.testing.assert_array_equal(unscaled, scaler.unscale((Tensor(X),))[0].asnumpy())
        scaler.adjust(flag)
        assert twin.scale_value.asnumpy() == scaler.scale_value.asnumpy()
        assert twin.counter.asnumpy() == scaler.counter.asnumpy()


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_a_step_in_mixed_precision(level: str) -> None:
    ms.set_seed(0)
    network = Net()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = amp.build_train_network(network, optimizer, loss, level)
    program = assert_steps_agree(step, Tensor(X), Tensor(Y), rtol=1e-3).program
    assert any(value.dtype == np.float16 for node in program.nodes for value in node.outputs)
    assert all(p.data.dtype == np.float32 for n, p in program.buffers.items() if ".fc." in n and n in program.updates)


def test_a_training_loop_written_by_hand() -> None:
    """Gradients are accumulated over two halves, clipped, and decayed by hand in a subclass of `Optimizer`."""

    class Descent(nn.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(nn.InverseDecayLR(0.1, 0.5, 2), parameters, weight_decay=0.1, loss_scale=4.0)

        def construct(self, gradients: Any) -> Any:
            gradients = self.scale_grad(self.gradients_centralization(self.decay_weight(gradients)))
            for parameter, g in zip(self.parameters, gradients, strict=True):
                ops.assign_sub(parameter, self.get_lr() * g)
            ops.assign_add(self.global_step, Tensor([1], ms.int32))
            return True

    class Step(nn.Cell):
        def __init__(self) -> None:
            super().__init__(auto_prefix=False)
            self.network = with_loss()
            self.optimizer = Descent(self.network.trainable_params())
            self.gradient = ms.value_and_grad(self.network, None, self.optimizer.parameters)

        def construct(self, x: Any, y: Any) -> Any:
            first, a = self.gradient(x[:3], y[:3])
            second, b = self.gradient(x[3:], y[3:])
            gradients = ops.clip_by_global_norm([(p + q) * 2.0 for p, q in zip(a, b, strict=True)], 1.5)
            self.optimizer(tuple(gradients))
            return first + second

    assert_steps_agree(Step().set_train(), Tensor(X), Tensor(Y), twin=Step().set_train())


def test_a_step_that_differs_is_noticed() -> None:
    def step(rate: float) -> nn.Cell:
        network = with_loss()
        return nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), rate)).set_train()

    with pytest.raises(AssertionError, match="after step 0"):
        assert_steps_agree(step(0.1), Tensor(X), Tensor(Y), twin=step(0.1001))
