"""Whatever raises while a gradient is computed, nothing of it is left: the next gradients are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import GradOperation, Parameter, Tensor, grad, nn, ops, value_and_grad
from cellbridge.runtime.common import tape
from cellbridge.runtime.precision import casts_operands

X = Tensor([1.0, 2.0])


class Boom(Exception):
    pass


def fail(*_: Any, **__: Any) -> Any:
    raise Boom


class Scaled(nn.Cell):
    """w x, where anything can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor([3.0, 4.0]), name="w")

    def construct(self, x: Any) -> Any:
        return self.w * x


class Failing(Scaled):
    def construct(self, x: Any) -> Any:
        return fail(ops.assign(self.w, self.w * x))


class FailingBackward(Scaled):
    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        raise Boom


def hooked(register: str) -> nn.Cell:
    cell = Scaled()
    getattr(cell, register)(fail)
    return cell


def in_function(x: Any) -> Any:
    return fail(x * x)


def in_inner_gradient(x: Any) -> Any:
    return grad(lambda z: in_function(z * x))(x)


def in_tensor_hook(x: Any) -> Any:
    y = x * x
    y.register_hook(fail)
    return y * 2.0


SITUATIONS: dict[str, Callable[[], Any]] = {
    "function": lambda: grad(in_function)(X),
    "value_and_grad": lambda: value_and_grad(in_function)(X),
    "GradOperation": lambda: GradOperation(get_all=True)(in_function)(X),
    "inner gradient": lambda: grad(in_inner_gradient)(X),
    "construct": lambda: (lambda net: grad(net, 0, net.w)(X))(Failing()),
    "construct in half precision": lambda: (lambda net: grad(net, 0, net.w)(X))(Failing().to_float(ms.float16)),
    "construct, kept forward": lambda: Failing().set_grad()(X),
    "bprop": lambda: grad(FailingBackward())(X),
    "forward pre-hook": lambda: grad(hooked("register_forward_pre_hook"))(X),
    "forward hook": lambda: grad(hooked("register_forward_hook"))(X),
    "backward pre-hook": lambda: grad(hooked("register_backward_pre_hook"))(X),
    "backward hook": lambda: grad(hooked("register_backward_hook"))(X),
    "tensor hook": lambda: grad(in_tensor_hook)(X),
    "HookBackward": lambda: grad(ops.HookBackward(fail))(X),
    "plain call in half precision": lambda: Failing().to_float(ms.float16)(X),
    "policy": lambda: ms.amp.auto_mixed_precision(in_function, "auto")(X),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_exception_passes_unchanged_and_leaves_nothing(situation: str) -> None:
    with pytest.raises(Boom):
        SITUATIONS[situation]()
    assert tape.current() is None
    assert not casts_operands()
    net = Scaled()
    of_x, of_w = grad(net, 0, net.w)(X)
    assert (of_x.tolist(), of_w.tolist()) == ([3.0, 4.0], X.tolist())
    assert grad(lambda a, b: a * b, (0, 1))(X, X * 2.0)[0].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "refused",
    [
        lambda net: grad(net, 0, net.w, has_aux=True)(X),
        lambda net: grad(net, 3, net.w)(X),
        lambda net: GradOperation(sens_param=True)(net)(X, Tensor([1.0])),
    ],
)
def test_a_request_that_is_refused_leaves_nothing(refused: Callable[[Any], Any]) -> None:
    net = Scaled()
    with pytest.raises((ValueError, RuntimeError)):
        refused(net)
    assert tape.current() is None
    assert net.w.number_on(tape.Tape()) is None
    assert grad(net, None, net.w)(X).tolist() == X.tolist()


def test_a_parameter_is_no_longer_tracked_after_a_failure() -> None:
    net = Failing()
    for _ in range(2):
        net.w.set_data(Tensor([3.0, 4.0]))
        with pytest.raises(Boom):
            grad(net, 0, net.w)(X)
    assert grad(lambda x: net.w * x)(X).tolist() == [3.0, 8.0]  # what `assign` left, w x
    assert grad(lambda x: net.w * x, None, net.w)(X).tolist() == X.tolist()


def test_an_outer_gradient_goes_on_after_an_inner_failure() -> None:
    def function(x: Any) -> Any:
        try:
            in_inner_gradient(x)
        except Boom:
            return x * x * x
        raise AssertionError("nothing was raised")

    assert grad(function)(X).tolist() == [3.0, 12.0]
    assert grad(grad(function))(X).tolist() == [6.0, 12.0]


def test_a_failed_step_of_training_changes_nothing_and_can_be_repeated() -> None:
    net = Scaled()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.5, 0.9))
    handle = net.register_backward_hook(fail)
    with pytest.raises(Boom):
        step(X, X)
    assert net.w.tolist() == [3.0, 4.0]
    assert step.optimizer.global_step.asnumpy() == 0
    handle.remove()
    step(X, X)  # the gradient of the mean of (w x - x)^2 is (w - 1) x^2
    np.testing.assert_allclose(net.w.asnumpy(), [3.0 - 0.5 * 2.0, 4.0 - 0.5 * 12.0])
