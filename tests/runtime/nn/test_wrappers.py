"""Cells that train: steps, their gradients and loss scales, and warnings about scales that don't match."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, amp, nn, ops

X = Tensor([[1.0, 2.0], [3.0, -1.0]])
Y = Tensor([[1.0], [2.0]])
# For w = (1, 2): outputs 5 and 1, errors 4 and -1, loss 8.5; the gradient is (4 (1, 2) - (3, -1)) = (1, 9).
LOSS, SLOPE = 8.5, np.array([[1.0, 9.0]])


def network() -> nn.Cell:
    net = nn.Dense(2, 1, has_bias=False)
    net.weight.set_data(Tensor([[1.0, 2.0]]))
    return net


def step_cell(sens: Any = None, loss_scale: float = 1.0, **kwargs: Any) -> tuple[nn.Cell, nn.TrainOneStepCell]:
    net = network()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=loss_scale)
    return net, nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, sens, **kwargs)


# ---- WithLossCell and its kin ----


def test_loss_of_a_network() -> None:
    net = network()
    cell = nn.WithLossCell(net, nn.MSELoss())
    assert cell(X, Y).asnumpy() == LOSS
    assert cell.backbone_network is net
    assert [parameter.name for parameter in cell.get_parameters()] == ["weight"]


def test_judging_a_network() -> None:
    net = network().to_float(ms.float16)
    loss, output, label = nn.WithEvalCell(net, nn.MSELoss(), add_cast_fp32=True)(X, Y)
    assert (loss.asnumpy(), output.dtype, label.tolist()) == (LOSS, np.float32, Y.tolist())
    output, label = nn.WithEvalCell(net, None)(X, Y)
    assert (output.dtype, label is Y) == (np.float16, True)
    with pytest.raises(TypeError, match=r"add_cast_fp32.*bool"):
        nn.WithEvalCell(net, None, 1)  # type: ignore[arg-type]


def test_gradients_of_a_network() -> None:
    (slope,) = nn.WithGradCell(network(), nn.MSELoss())(X, Y)
    np.testing.assert_allclose(slope.asnumpy(), SLOPE)
    (slope,) = nn.WithGradCell(network(), nn.MSELoss(), sens=Tensor(10.0))(X, Y)
    np.testing.assert_allclose(slope.asnumpy(), 10 * SLOPE)


def test_value_and_gradients_run_the_network_once() -> None:
    net = nn.BatchNorm1d(2).set_train()
    once, twice = nn.ForwardValueAndGrad(net, net.trainable_params(), get_by_list=True), nn.BatchNorm1d(2).set_train()
    output, gradients = once(X)
    np.testing.assert_allclose(output.asnumpy(), twice(X).asnumpy())
    np.testing.assert_allclose(net.moving_mean.asnumpy(), twice.moving_mean.asnumpy())
    assert [g.shape for g in gradients] == [(2,), (2,)]


# ---- a step ----


def test_a_step_returns_the_loss_and_updates() -> None:
    net, step = step_cell()
    assert step(X, Y).asnumpy() == LOSS
    np.testing.assert_allclose(net.weight.asnumpy(), [[1, 2]] - 0.1 * SLOPE, rtol=1e-6)
    assert step(X, Y).asnumpy() < LOSS
    assert step.optimizer.global_step.asnumpy() == 2


@pytest.mark.parametrize("scale", [8, 1000.0, 1024.0, 0.5])
def test_a_scale_that_is_divided_out_changes_nothing(scale: float) -> None:
    net, step = step_cell()
    expected = [step(X, Y).asnumpy() for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled, scaled_step = step_cell(scale, scale)
    np.testing.assert_allclose([scaled_step(X, Y).asnumpy() for _ in range(3)], expected, rtol=1e-6)
    np.testing.assert_allclose(scaled.weight.asnumpy(), net.weight.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize(("sens", "loss_scale", "factor"), [(1000.0, 1.0, 1000), (None, 1000.0, 0.001), (2, 4, 0.5)])
def test_scales_that_differ_are_warned_about(sens: Any, loss_scale: float, factor: float) -> None:
    with pytest.warns(UserWarning, match="must be equal") as caught:
        net, step = step_cell(sens, loss_scale)
    message = str(caught[0].message)
    for number in (f"sens={sens or 1:g}", f"loss_scale={loss_scale:g}", f"{factor:g} times"):
        assert number in message
    assert caught[0].filename == __file__
    assert step(X, Y).asnumpy() == LOSS
    np.testing.assert_allclose(net.weight.asnumpy(), [[1, 2]] - 0.1 * factor * SLOPE, rtol=1e-5)


def test_gradients_are_returned_as_the_optimizer_gets_them() -> None:
    _, step = step_cell(8.0, 8.0, return_grad=True)
    loss, gradients = step(X, Y)
    assert loss.asnumpy() == LOSS
    assert list(gradients) == ["weight"]
    np.testing.assert_allclose(gradients["weight"].asnumpy(), 8 * SLOPE)


def test_a_step_leaves_the_phase_and_names_alone() -> None:
    net, step = step_cell()
    before = [parameter.name for parameter in net.get_parameters()]
    step(X, Y)
    assert (step.training, net.training) == (False, False)
    assert [parameter.name for parameter in net.get_parameters()] == before
    step.set_train()
    assert net.training


def test_a_loss_in_half_precision_is_scaled_in_it() -> None:
    net = network().to_float(ms.float16)
    optimizer = nn.SGD(net.trainable_params(), 0.1, loss_scale=1024.0)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, 1024.0)
    assert step(X, Y.astype(ms.float16)).dtype == np.float16
    np.testing.assert_allclose(net.weight.asnumpy(), [[1, 2]] - 0.1 * SLOPE, rtol=1e-6)


def test_a_scale_beyond_half_precision_overflows_without_a_warning() -> None:
    net = network().to_float(ms.float16)
    optimizer = nn.SGD(net.trainable_params(), 0.1, loss_scale=2.0**16)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, 2.0**16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step(X, Y.astype(ms.float16)).asnumpy() == LOSS
        assert amp.StaticLossScaler(2.0**16).scale(Tensor([1.0], ms.float16)).tolist() == [np.inf]
    assert not np.isfinite(net.weight.asnumpy()).any()


def test_a_network_that_returns_several_losses() -> None:
    class Losses(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor([2.0]), name="w")

        def construct(self, x: Any) -> Any:
            return self.w * x, [self.w * 2.0]

    for scale in (1.0, 4.0):
        net = Losses()
        step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1, loss_scale=scale), scale)
        first, (second,) = step(Tensor([3.0]))
        assert (first.tolist(), second.tolist(), net.w.tolist()) == ([6.0], [4.0], [1.5])


@pytest.mark.parametrize(
    ("sens", "error", "words"),
    [(0, ValueError, ["sens", "not be 0"]), ("a", TypeError, ["sens", "int or float", "'a'"]),
     (Tensor(2.0), TypeError, ["sens", "Tensor"]), (True, TypeError, ["sens", "bool"])],
)  # fmt: skip
def test_scales_that_are_refused(sens: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        step_cell(sens)
    assert [word for word in words if word not in str(raised.value)] == []


def test_the_network_is_a_cell() -> None:
    with pytest.raises(TypeError, match="'network' must be Cell, but got int: 3"):
        nn.TrainOneStepCell(3, nn.SGD(network().trainable_params()))  # type: ignore[arg-type]


def test_the_optimizer_is_one() -> None:
    with pytest.raises(TypeError, match="'optimizer' must be Optimizer, but got str: 'sgd'"):
        nn.TrainOneStepCell(network(), "sgd")


def test_a_step_written_in_a_subclass() -> None:
    class Step(nn.TrainOneStepCell):
        def construct(self, *inputs: Any) -> Any:
            loss = self.network(*inputs)
            gradients = self.grad(self.network, self.weights)(*inputs, ops.full_like(loss, self.sens))
            return ops.depend(loss, self.optimizer(self.grad_reducer(gradients)))

    nets = network(), network()
    for net, made in zip(nets, (Step, nn.TrainOneStepCell), strict=True):
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=8.0)
        step = made(nn.WithLossCell(net, nn.MSELoss()), optimizer, 8.0)
        assert step(X, Y).asnumpy() == LOSS
        step(X, Y)
    assert nets[0].weight.tolist() == nets[1].weight.tolist()


def test_a_list_of_learning_rates_ends() -> None:
    net = network()
    optimizer = nn.SGD(net.trainable_params(), [0.1, 0.2])
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    step(X, Y)
    step(X, Y)
    with pytest.raises(RuntimeError, match=r"lists 2 learning rates.*none for step 3"):
        step(X, Y)


# ---- a step with a loss scale ----


def scaled_cell(scale: Any, lr: float = 0.1) -> tuple[nn.Cell, nn.TrainOneStepWithLossScaleCell]:
    net = network()
    optimizer = nn.SGD(net.trainable_params(), lr)
    return net, nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, scale)


def test_a_scaled_step_is_the_plain_one() -> None:
    for scale in (nn.FixedLossScaleUpdateCell(1024), nn.DynamicLossScaleUpdateCell(1024, 2, 100), Tensor([1024.0])):
        net, step = scaled_cell(scale)
        loss, overflow, used = step(X, Y)
        assert (loss.asnumpy(), bool(overflow), float(used)) == (LOSS, False, 1024.0)
        np.testing.assert_allclose(net.weight.asnumpy(), [[1, 2]] - 0.1 * SLOPE, rtol=1e-6)


def test_a_scale_follows_the_overflows() -> None:
    net, step = scaled_cell(nn.DynamicLossScaleUpdateCell(2.0**126, 4, 2), lr=0.0)
    states = []
    for _ in range(7):
        before = net.weight.asnumpy()
        _, overflow, scale = step(X, Y)
        states.append((bool(overflow), float(np.log2(scale.asnumpy()))))
        assert (net.weight.asnumpy() == before).all()
    # The loss of 8.5 (or the gradient 9) times 2**126 overflows float32; two steps without, and it is raised again.
    assert states == [(True, 126), (False, 124), (False, 124), (True, 126), (False, 124), (False, 124), (True, 126)]
    assert step.optimizer.global_step.asnumpy() == 4  # steps that overflow aren't counted


def test_a_step_that_overflows_leaves_the_parameters() -> None:
    net, step = scaled_cell(Tensor(2.0**127))
    _, overflow, _ = step(X, Y)
    assert bool(overflow)
    assert net.weight.tolist() == [[1.0, 2.0]]
    step.set_sense_scale(Tensor(8.0))
    _, overflow, scale = step(X, Y)
    assert (bool(overflow), float(scale)) == (False, 8.0)
    np.testing.assert_allclose(net.weight.asnumpy(), [[1, 2]] - 0.1 * SLOPE, rtol=1e-6)


def test_the_update_cell_by_itself() -> None:
    update, scale = nn.DynamicLossScaleUpdateCell(12, 3, 2), Parameter(Tensor([12.0]), name="scale")
    scales = []
    for overflow in (False, False, False, True, True, True, False, False):
        assert bool(update(scale, Tensor(overflow))) is overflow
        scales.append(float(scale))
    np.testing.assert_allclose(scales, [12, 36, 36, 12, 4, 4 / 3, 4 / 3, 4], rtol=1e-6)
    assert update.get_loss_scale() == 12
    largest = Parameter(Tensor([2.0**127]), name="scale")
    nn.DynamicLossScaleUpdateCell(2.0**127, 2, 1)(largest, Tensor(False))
    assert float(largest) == 2.0**127


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: scaled_cell(3.0), TypeError, ["scale_sense", "Tensor or a Cell", "float"]),
        (lambda: scaled_cell(Tensor([1.0, 2.0])), ValueError, ["scale_sense", "(1,)", "(2,)"]),
        (lambda: scaled_cell(Tensor(1.0))[1].set_sense_scale(2.0), TypeError, ["sens", "Tensor", "float"]),
        (lambda: nn.DynamicLossScaleUpdateCell(1, 0, 1), ValueError, ["scale_factor", "> 0", "0"]),
        (lambda: nn.DynamicLossScaleUpdateCell(1, 2, 0), ValueError, ["scale_window", "> 0", "0"]),
        (lambda: nn.DynamicLossScaleUpdateCell(1, 2, 1.5), TypeError, ["scale_window", "int", "1.5"]),
        (lambda: nn.ForwardValueAndGrad(3), TypeError, ["network", "Cell or function", "3"]),
        (lambda: nn.ForwardValueAndGrad(network(), get_by_list=True), TypeError, ["weights", "None"]),
        (lambda: nn.ForwardValueAndGrad(network(), get_all=1), TypeError, ["get_all", "bool"]),
    ],
)
def test_refusals(make: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make()
    assert [word for word in words if word not in str(raised.value)] == []


def test_gradients_pass_through_the_reducer_once_they_are_unscaled() -> None:
    net, cell = scaled_cell(Tensor(1024.0, ms.float32))
    before = [p.asnumpy() for p in net.get_parameters()]
    reducer_inputs: list[Any] = []

    class Reducer(nn.Cell):
        def construct(self, gradients: Any) -> Any:
            reducer_inputs.extend(gradients)
            return tuple(g * 0 for g in gradients)

    cell.grad_reducer = Reducer()
    cell(Tensor(np.ones((2, 2), np.float32)), Tensor(np.zeros((2, 1), np.float32)))
    assert max(abs(g.asnumpy()).max() for g in reducer_inputs) < 100
    for held, value in zip(net.get_parameters(), before, strict=True):
        np.testing.assert_array_equal(held.asnumpy(), value)
