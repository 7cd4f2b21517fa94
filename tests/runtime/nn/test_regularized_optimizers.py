"""Lamb, FTRL, proximal Adagrad and LazyAdam: against their formulas, element by element; their state, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import Parameter, Tensor, nn

Array = np.ndarray[Any, Any]
SHAPES = {"fc.weight": (3, 2), "bn.gamma": (3,), "scalar": ()}
STEPS = 5


def parameters(dtype: Any = np.float64) -> list[Parameter]:
    rng = np.random.default_rng(0)
    return [Parameter(np.asarray(rng.normal(size=shape), dtype), name=name) for name, shape in SHAPES.items()]


def gradients(step: int) -> list[Array]:
    rng = np.random.default_rng(1 + step)
    return [np.asarray(rng.normal(size=shape)) for shape in SHAPES.values()]


def led(optimizer: nn.Optimizer, scale: float = 1.0) -> list[Array]:
    """Where the Parameters are after some steps."""
    for step in range(STEPS):
        assert optimizer(tuple(Tensor(g * scale) for g in gradients(step))) == (True, True, True)
    return [p.asnumpy() for p in optimizer.parameters]


def by_element(rule: Callable[..., tuple[float, ...]], *first: float) -> list[Array]:
    """The same by a rule for one number: w, g and state to w and state."""
    results = []
    for i, parameter in enumerate(parameters()):
        w = parameter.asnumpy().copy()
        for place in np.ndindex(w.shape):
            state: tuple[float, ...] = (float(w[place]), *first)
            for step in range(STEPS):
                state = rule(state[0], float(gradients(step)[i][place]), *state[1:])
            w[place] = state[0]
        results.append(w)
    return results


def assert_led(actual: list[Array], expected: list[Array]) -> None:
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("l1", "l2", "power"), [(0.0, 0.0, -0.5), (4.0, 0.0, -0.5), (0.4, 0.3, -0.3), (0.1, 2.0, 0.0)])
def test_ftrl_is_its_formula(l1: float, l2: float, power: float) -> None:
    def rule(w: float, g: float, a: float, z: float) -> tuple[float, float, float]:
        g += 0.1 * w  # weight decay, of every Parameter
        after = a + g * g
        z += g - (after**-power - a**-power) / 0.2 * w
        w = 0.0 if abs(z) <= l1 else (math.copysign(l1, z) - z) / (after**-power / 0.2 + 2 * l2)
        return w, after, z

    optimizer = nn.FTRL(parameters(), 0.3, 0.2, power, l1, l2, loss_scale=8.0, weight_decay=0.1)
    expected = by_element(rule, 0.3, 0.0)
    assert_led(led(optimizer, scale=8.0), expected)
    zeros = sum(int((e == 0).sum()) for e in expected)
    assert (zeros > 0) == (l1 == 4.0)
    assert [p.name for p in optimizer.moments] == [f"moments.{name}" for name in SHAPES]
    assert [p.name for p in optimizer.linear] == [f"linear.{name}" for name in SHAPES]


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.7, 0.0), (0.2, 0.5)])
def test_proximal_adagrad_is_its_formula(l1: float, l2: float) -> None:
    rates = [0.5, 0.4, 0.3, 0.2, 0.1]

    def rule(w: float, g: float, a: float, step: float) -> tuple[float, float, float]:
        a += g * g
        s = rates[int(step)] / math.sqrt(a)
        p = w - s * g
        return math.copysign(max(abs(p) - s * l1, 0.0), p) / (1 + s * l2), a, step + 1

    expected = by_element(rule, 0.2, 0)
    assert_led(led(nn.ProximalAdagrad(parameters(), 0.2, rates, l1, l2)), expected)
    if l1 == l2 == 0.0:
        assert_led(led(nn.Adagrad(parameters(), 0.2, rates)), expected)


def test_lamb_is_its_formula() -> None:
    optimizer = nn.Lamb(parameters(), 0.1, 0.8, 0.9, 0.01, weight_decay=0.1)
    expected = []
    for i, parameter in enumerate(parameters()):
        w, m, v = parameter.asnumpy(), 0.0, 0.0
        decay = 0.0 if "gamma" in parameter.name else 0.1
        for step in range(STEPS):
            g = gradients(step)[i]
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            r = m / (1 - 0.8 ** (step + 1)) / (np.sqrt(v / (1 - 0.9 ** (step + 1))) + 0.01) + decay * w
            w = w - 0.1 * np.sqrt((w * w).sum() / (r * r).sum()) * r
        expected.append(w)
    assert_led(led(optimizer), expected)
    assert [p.name for p in optimizer.moments1] == [f"lamb_m.{name}" for name in SHAPES]


def test_lamb_moves_zeros_and_stays_without_gradient() -> None:
    held = Parameter(np.zeros(2), name="w")
    optimizer = nn.Lamb([held], 0.1)
    optimizer((Tensor(np.zeros(2)),))
    np.testing.assert_array_equal(held.asnumpy(), [0.0, 0.0])
    optimizer((Tensor(np.array([1.0, -1.0])),))
    assert np.isfinite(held.asnumpy()).all()
    assert held.asnumpy()[0] < 0 < held.asnumpy()[1]


def test_lazy_adam_is_adam_on_dense_gradients() -> None:
    options: dict[str, Any] = {"use_nesterov": True, "weight_decay": 0.1}
    assert_led(led(nn.LazyAdam(parameters(), 0.1, **options)), led(nn.Adam(parameters(), 0.1, **options)))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: nn.FTRL(p, -0.1), ValueError, ["'FTRL'", "'initial_accum'", ">= 0"]),
        (lambda p: nn.FTRL(p, learning_rate=0.0), ValueError, ["'learning_rate'", "> 0"]),
        (lambda p: nn.FTRL(p, learning_rate=[0.1, 0.2]), TypeError, ["'learning_rate'", "list"]),
        (lambda p: nn.FTRL(p, lr_power=0.5), ValueError, ["'lr_power'", "0.5"]),
        (lambda p: nn.FTRL(p, l1=-1.0), ValueError, ["'l1'", ">= 0"]),
        (lambda p: nn.FTRL([{"params": p, "lr": 0.1}]), ValueError, ["one learning rate"]),
        (lambda p: nn.FTRL(p, use_locking=1), TypeError, ["'use_locking'", "bool"]),
        (lambda p: nn.ProximalAdagrad(p, l2=-1.0), ValueError, ["'ProximalAdagrad'", "'l2'"]),
        (lambda p: nn.ProximalAdagrad(p, "0.1"), TypeError, ["'accum'", "str"]),
        (lambda p: nn.Lamb(p), TypeError, ["learning_rate"]),
        (lambda p: nn.Lamb(p, 0.1, beta1=1.0), ValueError, ["'Lamb'", "'beta1'", "(0, 1)"]),
        (lambda p: nn.LazyAdam(p, eps=0.0), ValueError, ["'LazyAdam'", "'eps'"]),
    ],
)
def test_errors_name_what_is_wrong(make: Callable[[Any], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make(parameters())
    assert [word for word in words if word not in str(raised.value)] == []
