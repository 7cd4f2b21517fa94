"""Learning rates: as numbers, lists, tensors and schedules; against torch's schedulers where they are the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, nn

STEPS = 9


def rates_used(learning_rate: Any, steps: int, dtype: Any = np.float64) -> list[float]:
    """The learning rates that an optimizer uses, seen from its updates."""
    p = Parameter(np.array([0.0], dtype), name="w")
    optimizer = nn.SGD([p], learning_rate)
    used = []
    for _ in range(steps):
        before = float(p)
        optimizer((Tensor(np.array([1.0], dtype)),))
        used.append(before - float(p))
    return used


@pytest.mark.parametrize(
    "given",
    [
        [0.5, 0.25, 0.125],
        (0.5, 0.25, 0.125),
        np.array([0.5, 0.25, 0.125]),
        Tensor([0.5, 0.25, 0.125]),
    ],
)
def test_one_rate_per_step(given: Any) -> None:
    assert rates_used(given, 3) == [0.5, 0.25, 0.125]


def test_an_iterator_is_used_up_at_once() -> None:
    assert rates_used(iter([0.5, 0.25]), 2) == [0.5, 0.25]


@pytest.mark.parametrize("given", [0.5, Tensor(0.5), np.float32(0.5), np.array(0.5)])
def test_one_rate_for_all_steps(given: Any) -> None:
    assert rates_used(given, 3) == [0.5] * 3


def test_beyond_the_last_rate_a_step_is_an_error_and_changes_nothing() -> None:
    p = Parameter(np.array([1.0]), name="w")
    optimizer = nn.Momentum([p], [0.5, 0.25], 0.9)
    slope = (Tensor(np.array([1.0])),)
    for _ in range(2):
        optimizer(slope)
    before = p.asnumpy()
    with pytest.raises(RuntimeError, match=r"lists 2 learning rates, one per step.* none for step 3"):
        optimizer(slope)
    assert p.asnumpy() == before
    assert int(optimizer.global_step) == 2


def test_the_rate_is_a_parameter_that_can_be_set() -> None:
    p = Parameter(np.array([1.0]), name="w")
    optimizer = nn.SGD([p], 0.5)
    assert optimizer.get_lr() is optimizer.learning_rate
    optimizer.learning_rate.set_data(0.25)
    optimizer((Tensor(np.array([1.0])),))
    assert p.asnumpy().tolist() == [0.75]


def test_float64_parameters_are_trained_with_float64_rates() -> None:
    schedule = nn.ExponentialDecayLR(0.1, 0.9, 1)
    assert rates_used(0.1, 1) == [0.1]
    np.testing.assert_allclose(rates_used(schedule, 3), [0.1, 0.09, 0.081], rtol=1e-14)
    np.testing.assert_allclose(rates_used([0.1, 0.3], 2), [0.1, 0.3], rtol=1e-14)
    assert nn.SGD([Parameter(np.array([1.0], np.float32), name="w")], 0.1).get_lr().dtype == ms.float32
    assert nn.ExponentialDecayLR(0.1, 0.9, 1)(Tensor(2)).dtype == ms.float32


def test_a_schedule_of_one_s_own() -> None:
    class WarmUpThenDecay(nn.LearningRateSchedule):
        def __init__(self) -> None:
            super().__init__()
            self.warm_up = nn.WarmUpLR(0.5, 2)
            self.decay = nn.ExponentialDecayLR(0.5, 0.5, 1)

        def construct(self, global_step: Any) -> Any:
            return self.warm_up(global_step) if int(global_step) < 2 else self.decay(global_step - 2)

    np.testing.assert_allclose(rates_used(WarmUpThenDecay(), 5), [0, 0.25, 0.5, 0.25, 0.125], rtol=1e-14)


# ---- schedules ----


def torch_rates(make: Callable[[Any], Any], learning_rate: float) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], learning_rate)
    scheduler = make(optimizer)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


schedulers = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    ("schedule", "listed", "expected"),
    [
        (
            nn.ExponentialDecayLR(0.1, 0.5, 4),
            nn.exponential_decay_lr(0.1, 0.5, STEPS, 1, 4),
            torch_rates(lambda optimizer: schedulers.ExponentialLR(optimizer, 0.5**0.25), 0.1),
        ),
        (
            nn.ExponentialDecayLR(0.1, 0.5, 4, is_stair=True),
            nn.exponential_decay_lr(0.1, 0.5, STEPS, 1, 4, True),
            torch_rates(lambda optimizer: schedulers.StepLR(optimizer, 4, 0.5), 0.1),
        ),
        (
            nn.NaturalExpDecayLR(0.1, 0.5, 4),
            nn.natural_exp_decay_lr(0.1, 0.5, STEPS, 1, 4),
            [0.1 * math.exp(-0.5 * step) for step in range(STEPS)],
        ),
        (
            nn.NaturalExpDecayLR(0.1, 0.5, 4, is_stair=True),
            nn.natural_exp_decay_lr(0.1, 0.5, STEPS, 1, 4, True),
            [0.1] * 4 + [0.1 * math.exp(-2)] * 4 + [0.1 * math.exp(-4)],
        ),
        (
            nn.InverseDecayLR(0.1, 0.5, 4),
            nn.inverse_decay_lr(0.1, 0.5, STEPS, 1, 4),
            [0.1 / (1 + 0.125 * step) for step in range(STEPS)],
        ),
        (
            nn.InverseDecayLR(0.1, 0.5, 4, is_stair=True),
            nn.inverse_decay_lr(0.1, 0.5, STEPS, 1, 4, True),
            [0.1] * 4 + [0.1 / 1.5] * 4 + [0.1 / 2],
        ),
        (
            nn.CosineDecayLR(0.01, 0.1, STEPS - 1),
            nn.cosine_decay_lr(0.01, 0.1, STEPS, 1, STEPS - 1),
            torch_rates(lambda optimizer: schedulers.CosineAnnealingLR(optimizer, STEPS - 1, 0.01), 0.1),
        ),
        (
            nn.PolynomialDecayLR(0.1, 0.0, 5, 0.5),
            nn.polynomial_decay_lr(0.1, 0.0, STEPS, 1, 5, 0.5),
            torch_rates(lambda optimizer: schedulers.PolynomialLR(optimizer, 5, 0.5), 0.1),
        ),
        (
            nn.PolynomialDecayLR(0.1, 0.02, 4, 2.0, True),
            nn.polynomial_decay_lr(0.1, 0.02, STEPS, 1, 4, 2.0, True),
            [0.08 * (1 - step / n) ** 2 + 0.02 for step, n in enumerate([4, 4, 4, 4, 4, 8, 8, 8, 8])],
        ),
        (
            nn.WarmUpLR(0.1, 4),
            nn.warmup_lr(0.1, STEPS, 1, 4),
            [0.1 * min(step, 4) / 4 for step in range(STEPS)],
        ),
    ],
)
def test_schedules_and_lists(schedule: nn.Cell, listed: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(listed, expected, rtol=1e-12, atol=1e-15)
    rates = schedule(Tensor(np.arange(STEPS, dtype=np.int32))).asnumpy()
    np.testing.assert_allclose(rates, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(rates_used(schedule, STEPS), expected, rtol=1e-10, atol=1e-14)


def test_lists_change_with_the_epoch() -> None:
    assert nn.warmup_lr(0.5, 6, 2, 2) == [0, 0, 0.25, 0.25, 0.5, 0.5]
    assert nn.exponential_decay_lr(0.5, 0.5, 5, 2, 1) == [0.5, 0.5, 0.25, 0.25, 0.125]
    assert nn.piecewise_constant_lr([2, 5], [0.1, 0.05]) == [0.1, 0.1, 0.05, 0.05, 0.05]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nn.ExponentialDecayLR(0.0, 0.9, 2), ValueError, ["learning_rate", "> 0"]),
        (lambda: nn.ExponentialDecayLR(0.1, "a", 2), TypeError, ["decay_rate", "str"]),
        (lambda: nn.InverseDecayLR(0.1, 0.9, 0), ValueError, ["decay_steps", "> 0"]),
        (lambda: nn.NaturalExpDecayLR(0.1, 0.9, 2, is_stair=1), TypeError, ["is_stair", "bool"]),
        (lambda: nn.CosineDecayLR(0.1, 0.01, 4), ValueError, ["max_lr", "min_lr"]),
        (lambda: nn.PolynomialDecayLR(0.1, -0.1, 4, 1.0), ValueError, ["end_learning_rate", ">= 0"]),
        (lambda: nn.PolynomialDecayLR(0.1, 0.01, 4, 0.0), ValueError, ["power", "> 0"]),
        (lambda: nn.WarmUpLR(-0.1, 4), ValueError, ["learning_rate", ">= 0"]),
        (lambda: nn.warmup_lr(0.1, 4, 1, 0), ValueError, ["warmup_epoch", "> 0"]),
        (lambda: nn.exponential_decay_lr(0.1, 0.9, 0, 1, 1), ValueError, ["total_step", "> 0"]),
        (lambda: nn.cosine_decay_lr(0.2, 0.1, 4, 1, 1), ValueError, ["max_lr", "min_lr"]),
        (lambda: nn.piecewise_constant_lr([2], [0.1, 0.2]), ValueError, ["length", "1", "2"]),
        (lambda: nn.piecewise_constant_lr([4, 2], [0.1, 0.2]), ValueError, ["milestone", "[4, 2]"]),
        (lambda: nn.piecewise_constant_lr(2, [0.1, 0.2]), TypeError, ["milestone", "int"]),
        (lambda: rates_used(-0.1, 1), ValueError, ["learning_rate", ">= 0"]),
        (lambda: rates_used([0.1, -0.1], 1), ValueError, ["learning_rate", ">= 0"]),
        (lambda: rates_used([], 1), ValueError, ["learning_rate", "[]"]),
        (lambda: rates_used(Tensor([[0.1]]), 1), ValueError, ["learning_rate", "(1, 1)"]),
        (lambda: rates_used("0.1", 1), TypeError, ["learning_rate", "str"]),
        (lambda: rates_used(None, 1), TypeError, ["learning_rate", "NoneType"]),
        (lambda: rates_used(nn.Cell(), 1), TypeError, ["learning_rate", "LearningRateSchedule"]),
        (lambda: rates_used(nn.LearningRateSchedule(), 1), NotImplementedError, ["LearningRateSchedule", "construct"]),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make()
    assert all(word in str(raised.value) for word in words), str(raised.value)
