"""Parameter groups, weight decay, centralization, and optimizers that people write themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import Parameter, Tensor, nn


def parameter(name: str, *values: float) -> Parameter:
    return Parameter(np.array(values or (1.0,)), name=name)


def slopes(*values: float) -> tuple[Tensor, ...]:
    return tuple(Tensor(np.array([value])) for value in values)


def after_one_step(optimizer: nn.Optimizer, *values: float) -> dict[str, float]:
    optimizer(slopes(*values))
    return {p.name: round(float(p), 12) for p in optimizer.parameters}


# ---- groups ----


def test_groups_have_their_own_learning_rate_and_weight_decay() -> None:
    a, b, c = parameter("a"), parameter("b"), parameter("c")
    optimizer = nn.SGD(
        [{"params": [a], "lr": 0.5}, {"params": [b], "weight_decay": 0.5}, {"params": [c]}], 0.1, weight_decay=0.25
    )
    assert after_one_step(optimizer, 1, 1, 1) == {"a": 1 - 0.5 * 1.25, "b": 1 - 0.1 * 1.5, "c": 1 - 0.1 * 1.25}


def test_weight_decay_spares_beta_and_gamma_unless_there_are_groups() -> None:
    held = [parameter(name) for name in ("bn.gamma", "x.betas", "bias")]
    assert after_one_step(nn.SGD(held, 0.1, weight_decay=1.0), 0, 0, 0) == {"bn.gamma": 1, "x.betas": 1, "bias": 0.9}
    held = [parameter(name) for name in ("bn.gamma", "x.betas", "bias")]
    groups = [{"params": held[:1], "weight_decay": 0.5}, {"params": held[1:]}]
    assert after_one_step(nn.SGD(groups, 0.1, weight_decay=1.0), 0, 0, 0) == {
        "bn.gamma": 0.95,
        "x.betas": 0.9,
        "bias": 0.9,
    }


def test_decoupled_weight_decay_spares_beta_and_gamma_too() -> None:
    held = [parameter("bn.gamma"), parameter("weight")]
    assert after_one_step(nn.AdamWeightDecay(held, 0.1, weight_decay=1.0), 0, 0) == {"bn.gamma": 1, "weight": 0.9}


def test_order_params_gives_the_order() -> None:
    a, b = parameter("a"), parameter("b")
    optimizer = nn.SGD([{"params": [a], "lr": 0.5}, {"params": [b]}, {"order_params": [b, a]}], 0.1)
    assert [p.name for p in optimizer.parameters] == ["b", "a"]
    assert after_one_step(optimizer, 1, 2) == {"b": 0.9, "a": 0.0}


def test_the_parameters_of_groups_are_listed_with_their_learning_rates() -> None:
    a, b = parameter("a"), parameter("b")
    optimizer = nn.Momentum([{"params": [a], "lr": 0.5}, {"params": [b]}], 0.1, 0.9)
    names = ["global_step", "learning_rate_group_0", "learning_rate", "a", "b", "momentum", "moments.a", "moments.b"]
    assert [p.name for p in optimizer.get_parameters()] == names
    assert [float(rate) for rate in optimizer.get_lr()] == [0.5, 0.1]
    assert float(optimizer.get_lr_parameter(a)) == 0.5
    assert [rate.name for rate in optimizer.get_lr_parameter([b, a])] == ["learning_rate", "learning_rate_group_0"]


def test_a_group_may_have_a_schedule_beside_a_fixed_rate() -> None:
    a, b, c = parameter("a"), parameter("b"), parameter("c")
    optimizer = nn.SGD(
        [{"params": [a], "lr": nn.WarmUpLR(0.4, 2)}, {"params": [b], "lr": [0.5, 0.25]}, {"params": [c]}], 0.1
    )
    assert after_one_step(optimizer, 1, 1, 1) == {"a": 1.0, "b": 0.5, "c": 0.9}
    assert after_one_step(optimizer, 1, 1, 1) == {"a": 0.8, "b": 0.25, "c": 0.8}
    assert [p.name for p in optimizer.get_parameters() if p.name.startswith("learning")] == [
        "learning_rate_group_1",
        "learning_rate",
    ]


def test_gradients_are_centralized_where_the_group_asks() -> None:
    kernel = np.arange(12.0).reshape(2, 3, 2)
    a, b = Parameter(np.zeros((2, 3, 2)), name="a"), Parameter(np.zeros((2, 3, 2)), name="b")
    bias = Parameter(np.zeros(2), name="bias")
    optimizer = nn.SGD([{"params": [a, bias], "grad_centralization": True}, {"params": [b]}], 1.0)
    optimizer((Tensor(kernel), Tensor(np.array([1.0, 2.0])), Tensor(kernel)))
    np.testing.assert_allclose(a.asnumpy(), kernel.mean((1, 2), keepdims=True) - kernel)
    np.testing.assert_allclose(b.asnumpy(), -kernel)
    np.testing.assert_allclose(bias.asnumpy(), [-1, -2])


def test_weight_decay_may_depend_on_the_step() -> None:
    class Growing(nn.Cell):
        def construct(self, step: Any) -> Any:
            return 0.25 * (step + 1).astype("float32")

    p = parameter("w")
    optimizer = nn.SGD([p], 1.0, weight_decay=Growing())
    assert after_one_step(optimizer, 0) == {"w": 0.75}
    assert after_one_step(optimizer, 0) == {"w": 0.375}
    assert float(optimizer.get_weight_decay()) == 0.75


W = parameter("w")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (None, ValueError, ["parameters", "None"]),
        ([], ValueError, ["parameters", "empty"]),
        (W, TypeError, ["list", "Parameter"]),
        (7, TypeError, ["list", "int"]),
        ([Tensor([1.0])], TypeError, ["Parameter", "Tensor"]),
        ([W, {"params": [W]}], TypeError, ["groups", "Parameter"]),
        ([W, W], ValueError, ["'w'", "twice"]),
        ([W, parameter("w")], ValueError, ["'w'", "already exists"]),
        ([{"params": []}], ValueError, ["params", "empty"]),
        ([{"lr": 0.1}], KeyError, ["params", "lr"]),
        ([{"params": [W], "foo": 1}], KeyError, ["foo", "grad_centralization"]),
        ([{"params": [Tensor([1.0])]}], TypeError, ["Parameter", "Tensor", "index 0"]),
        ([{"params": [W]}, {"params": [W]}], RuntimeError, ["'w'", "already exists"]),
        ([{"params": [W]}, {"params": [parameter("w")]}], ValueError, ["'w'", "already exists"]),
        ([{"params": [W]}, {"order_params": [W, parameter("b")]}], ValueError, ["order_params", "['w']"]),
        ([{"params": [W]}, {"order_params": [parameter("b")]}], ValueError, ["order_params", "['b']"]),
        ([{"params": [W]}, {"order_params": [W], "lr": 0.1}], ValueError, ["order_params", "only"]),
        ([{"order_params": [W]}], ValueError, ["groups", "empty"]),
        ([{"params": [W], "grad_centralization": 1}], TypeError, ["grad_centralization", "bool"]),
        ([{"params": [W], "weight_decay": -1.0}], ValueError, ["weight_decay", ">= 0"]),
        ([{"params": [W], "lr": -1.0}], ValueError, ["learning_rate", ">= 0"]),
    ],
)
def test_parameters_and_groups_are_checked(given: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        nn.SGD(given, 0.1)
    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_the_learning_rate_of_a_parameter_that_is_not_updated_is_an_error() -> None:
    optimizer = nn.SGD([W], 0.1)
    with pytest.raises(ValueError, match="'b'"):
        optimizer.get_lr_parameter(parameter("b"))
    with pytest.raises(TypeError, match="Parameter"):
        optimizer.get_lr_parameter(0.1)


# ---- optimizers of one's own ----


class WithOps(nn.Optimizer):
    """Written with the methods of the base and tensor operators, as people do."""

    def __init__(self, params: Any, learning_rate: Any, momentum: float, **kwargs: Any) -> None:
        super().__init__(learning_rate, params, **kwargs)
        self.moments = self.parameters.clone(prefix="moments", init="zeros")
        self.momentum = momentum

    def construct(self, gradients: Any) -> Any:
        lr = self.get_lr()
        gradients = self.decay_weight(gradients)
        gradients = self.gradients_centralization(gradients)
        gradients = self.scale_grad(gradients)
        for p, moment, g in zip(self.parameters, self.moments, gradients, strict=True):
            moment.set_data(moment * self.momentum + g)
            p.set_data(p - lr * moment)
        return True


def test_an_optimizer_written_with_tensor_operators_does_the_same() -> None:
    def two() -> list[Parameter]:
        return [Parameter(np.ones((2, 3)), name="weight"), Parameter(np.ones(3), name="gamma")]

    rng = np.random.default_rng(0)
    for arguments in ({}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "loss_scale": 8.0}):
        parameters_of_written, parameters_of_built_in = two(), two()
        written, built_in = (
            WithOps(parameters_of_written, 0.1, 0.9, **arguments),
            nn.Momentum(parameters_of_built_in, 0.1, 0.9, **arguments),
        )
        for _ in range(3):
            given = tuple(Tensor(rng.normal(size=p.shape)) for p in parameters_of_built_in)
            assert written(given) is True
            built_in(given)
        for a, b in zip(parameters_of_written, parameters_of_built_in, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-12)
