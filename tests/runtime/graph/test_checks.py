"""`assert`, and `if ...: raise ...`, on values of tensors in traced code: raised once the program has run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from cellbridge.runtime.errors import UnsupportedPython
from tests.runtime.graph.asserting import asserted, in_a_branch

X = Tensor(np.ones((2, 3), np.float32))


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Strange(Exception):
    def __init__(self, text: str, code: int = 3) -> None:
        super().__init__(text)
        self.code = code


def with_a_message(x: Any) -> Any:
    if x.sum() < 0:
        raise ValueError(f"sum {x.sum()} of {x.shape}")
    return x * 2


def of_a_class(x: Any) -> Any:
    if not (x.sum() > 0 and x.max() > 0):
        raise ValueError
    return x * 2


def in_a_chain(x: Any) -> Any:
    if x.sum() < 0:
        raise Strange("below", code=7)
    elif x.sum() > 5:
        x = x * 10
    else:
        x = x * 3
    return x


def in_a_loop(x: Any) -> Any:
    count = Tensor(0, ms.int32)
    while count < 4:
        count = count + 1
        x = x * 2
        if x.min() < -6:
            raise OverflowError(f"{x.min()} in {count}")
    return x


FUNCTIONS = [asserted, with_a_message, of_a_class, in_a_chain, in_a_branch, in_a_loop]


def _outcome(function: Any, x: Any) -> Any:
    """The numbers that it gives, or the class, the text and a number of what it raises."""
    try:
        return function(x).asnumpy().tolist()
    except Exception as error:  # noqa: BLE001  (whatever the function raises)
        return type(error), str(error), getattr(error, "code", None)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_raises_what_eager_mode_raises(function: Any) -> None:
    compiled = ms.jit(function)
    for x in (X, -X, X):
        expected, given = (_outcome(called, x) for called in (function, compiled))
        assert given == expected
    assert compiled.cache_info().traces == 1  # type: ignore[attr-defined]


class Checked(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 1)

    def construct(self, x: Any) -> Any:
        y = self.fc(x)
        print("before")
        if ops.isnan(y).any():
            raise RuntimeError("NaN")
        print("after")
        return y.sum()


@pytest.mark.usefixtures("graph_mode")
def test_parameters_stay_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    net = Checked()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1)).set_train()
    step(X)
    before = net.fc.weight.asnumpy().copy()
    assert capsys.readouterr().out == "before\nafter\n"
    with pytest.raises(RuntimeError, match="NaN"):
        step(X * float("nan"))
    assert capsys.readouterr().out == "before\n"
    np.testing.assert_array_equal(net.fc.weight.asnumpy(), before)
    step(X)


@pytest.mark.usefixtures("graph_mode")
def test_a_gradient_asked_for_outside_is_checked_too() -> None:
    net = Checked()
    gradient = ms.grad(net)
    assert np.isfinite(gradient(X).asnumpy()).all()
    with pytest.raises(RuntimeError, match="NaN"):
        gradient(X * float("nan"))


def test_a_program_says_that_it_checks_nothing() -> None:
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        ms.trace(asserted, (X,))
    assert [str(w.message) for w in met] == [
        "Python checks values (assert, raise); the program doesn't (those that `jit` and graph mode compile do)"
    ]


def test_what_stands_beside_raise_is_refused() -> None:
    @ms.jit
    def changed(x: Any) -> Any:
        if x.sum() < 0:
            x = x * 2
            raise ValueError("negative")
        return x

    with pytest.raises(UnsupportedPython, match="an exception is raised under a condition on a tensor"):
        changed(X)


# ---- the end of a list of learning rates ----


@pytest.mark.usefixtures("graph_mode")
@pytest.mark.parametrize("kind", ["step", "jit", "optimizer", "groups", "rate"])
def test_a_list_of_learning_rates_that_ends(kind: str) -> None:
    net, loss = nn.Dense(3, 2), nn.MSELoss()
    groups: Any = [{"params": [net.weight], "lr": [0.1, 0.2]}, {"params": [net.bias]}]
    rates: Any = 0.1 if kind == "groups" else [0.1, 0.2]
    optimizer = nn.SGD(groups if kind == "groups" else net.trainable_params(), learning_rate=rates)
    labels = Tensor(np.ones((2, 2), np.float32))
    gradients = ms.value_and_grad(lambda x, y: loss(net(x), y), None, optimizer.parameters)

    def by_hand(x: Any, y: Any) -> Any:
        value, weight_gradients = gradients(x, y)
        optimizer(weight_gradients)
        return value

    whole = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()
    step = {"jit": ms.jit(by_hand), "optimizer": by_hand}.get(kind, whole)
    for _ in range(2):
        step(X, labels)
    with pytest.raises(RuntimeError, match=r"lists 2 learning rates, one per step, and all were used: .* for step 3"):
        optimizer.get_lr() if kind == "rate" else step(X, labels)
