"""Replays of updates: torch's formulas, and a search that the replay decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cellbridge.parity.causes.budget import Budget
from cellbridge.parity.jobs.training.proofs import budget_of_training, prove
from cellbridge.parity.jobs.training.updates.numbers import least_squares, plain_numbers
from cellbridge.parity.jobs.training.updates.rules import (
    ADADELTA,
    ADAM,
    ADAMAX,
    IN_MAXIMUM,
    NADAM,
    RADAM,
    SGD,
    UNCORRECTED,
    Rule,
    replay,
)
from cellbridge.parity.jobs.training.updates.search import Search
from cellbridge.parity.jobs.training.updates.torch_rules import rule_of
from cellbridge.parity.jobs.training.updates.trajectory import Trajectory
from cellbridge.parity.jobs.training.updates.treatment import NORM, VALUE, Treatment, carry_over, treatments

STEPS = 5
RNG = np.random.default_rng(0)
GRADIENTS = [RNG.normal(size=(3, 4)) for _ in range(STEPS)]


def follow(rule: Rule, gradients: Sequence[Any] = GRADIENTS) -> list[np.ndarray]:
    """The parameter before the first and after every step."""
    parameters = [np.linspace(-1, 1, 12).reshape(3, 4)]
    for step in range(1, len(gradients) + 1):
        parameters.append(parameters[-1] + replay([rule] * step, gradients[:step], parameters)[-1])
    return parameters


def trajectory(reference: Rule, candidate: Rule, noise: float = 0.0, bar: float = 1e-12) -> Trajectory:
    """The trajectory of one parameter that a candidate's rule updates."""
    parameters = [{"w": p + noise * RNG.normal(size=p.shape)} for p in follow(candidate)]
    gradients = [{"w": g} for g in GRADIENTS]
    plan = {"w": [reference] * STEPS}
    return Trajectory(
        parameters, gradients, [[step] for step in gradients], gradients, plan, lambda name, step: bar, 2.0**-52
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
        ("Adam", {"lr": 0.1, "betas": (0.8, 0.99), "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True}),
        ("AdamW", {"lr": 0.1}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
        ("RMSprop", {"lr": 0.1, "alpha": 0.9, "momentum": 0.5, "centered": True}),
        ("Adamax", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 0.1, "weight_decay": 0.1}),
        ("NAdam", {"lr": 0.1, "betas": (0.8, 0.9), "momentum_decay": 0.1, "weight_decay": 0.1}),
        ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
        ("RAdam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
        ("RAdam", {"lr": 0.1, "betas": (0.9, 0.999), "weight_decay": 0.1, "decoupled_weight_decay": True}),
        ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    ],
)
def test_a_replay_is_what_torch_does(name: str, arguments: Any) -> None:
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4))
    optimizer = getattr(torch.optim, name)([parameter], **arguments)
    rule = rule_of(optimizer, optimizer.param_groups[0])
    assert rule is not None
    expected = follow(rule)
    for step, gradient in enumerate(GRADIENTS, 1):
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), expected[step], rtol=1e-13, atol=1e-15)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("right", "wrong", "name", "values"),
    [
        (Rule(ADAMAX, 0.01), Rule(ADAMAX, 0.01, beta2=0.99), "betas[1]", (0.999, 0.99)),
        (Rule(ADAMAX, 0.01, eps=0.1), Rule(ADAMAX, 0.01, eps=0.1, eps_place=IN_MAXIMUM), "eps place", None),
        (Rule(NADAM, 0.01), Rule(NADAM, 0.01, momentum_decay=0.1), "momentum_decay", (0.004, 0.1)),
        (Rule(NADAM, 0.01), Rule(ADAM, 0.01), "optimizer", ("NAdam", "Adam")),
        (Rule(RADAM, 0.01, beta2=0.9, weight_decay=0.1, eps_place=UNCORRECTED),
         Rule(RADAM, 0.01, beta2=0.9, weight_decay=0.1, eps_place=UNCORRECTED, decoupled=True), "optimizer", None),
        (Rule(ADAM, 0.01), Rule(RADAM, 0.01, eps_place=UNCORRECTED), "optimizer", ("Adam", "RAdam")),
        (Rule(ADADELTA, 1.0, beta2=0.9, eps=1e-6), Rule(ADADELTA, 1.0, beta2=0.9, eps=1e-3), "eps", (1e-6, 1e-3)),
        (Rule(ADAM, 0.01), Rule(ADAMAX, 0.01, eps_place=IN_MAXIMUM), "optimizer", ("Adam", "Adamax")),
    ],
)  # fmt: skip
def test_what_differs_is_named(right: Rule, wrong: Rule, name: str, values: tuple[Any, Any] | None) -> None:
    (cause,) = prove(trajectory(right, wrong), budget_of_training()).causes
    assert cause.attribute == name, cause.summary
    assert values is None or (cause.reference_value, cause.candidate_value) == values


def test_an_optimizer_with_an_unknown_formula_has_no_rule() -> None:
    optimizer = torch.optim.Rprop([torch.nn.Parameter(torch.zeros(1))])
    assert rule_of(optimizer, optimizer.param_groups[0]) is None


def test_a_wrong_number_is_refused_by_the_replay() -> None:
    right, wrong = Rule(ADAM, 0.01, beta2=0.99), Rule(ADAM, 0.01, beta2=0.9901)
    training = trajectory(Rule(ADAM, 0.01), right)
    assert np.isfinite(training.error("w", [right] * STEPS))
    assert training.error("w", [wrong] * STEPS) == np.inf
    assert training.error("w", [replace(right, beta2=1.0)] * STEPS) == np.inf  # not a number


@pytest.mark.parametrize("bar", [1e-12, 1.0])
@pytest.mark.every(2)
def test_noise_proves_nothing(bar: float) -> None:
    """Not even where the comparison itself would allow it, as it does for gradients that are nothing but rounding."""
    training = trajectory(Rule(SGD, 0.1), Rule(SGD, 0.1, momentum=0.5), noise=1e-4, bar=bar)
    assert training.differing() == ["w"]
    assert prove(training, budget_of_training()).causes == []


def test_two_numbers_are_not_read_from_one_element() -> None:
    step = [{"w": np.ones(1)}]
    training = Trajectory([{"w": np.ones(1)}, {"w": np.zeros(1)}], step, [step], step, {"w": [Rule(SGD, 0.1)]},
                     lambda name, step: 1e-12, 2.0**-52)  # fmt: skip
    assert Search(training, budget_of_training()).findings() == []


def test_a_search_ends_at_its_limit_of_work_and_says_so() -> None:
    budget = Budget(work=1e6, advice="")
    assert Search(trajectory(Rule(SGD, 0.1), Rule(SGD, 0.2)), budget).findings() == []
    assert budget.note.startswith("the search for causes was cut at its limit of work: ")


def test_a_slow_clock_changes_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    training = trajectory(Rule(SGD, 0.1), Rule(SGD, 0.2))
    (idle,) = Search(training, budget_of_training()).findings()
    now = iter(range(10**9))
    monkeypatch.setattr("cellbridge.parity.causes.budget.time.monotonic", lambda: next(now) * 0.1)
    (busy,) = Search(training, budget_of_training()).findings()
    assert busy.changes == idle.changes


def test_a_training_that_diverges_is_explained_by_the_steps_before() -> None:
    training = trajectory(Rule(SGD, 0.1), Rule(SGD, 0.2))
    broken = {"w": np.full((3, 4), np.nan)}
    (cause,) = prove(
        replace(training, parameters=[*training.parameters[:4], broken, broken]), budget_of_training()
    ).causes
    assert (cause.candidate_value, cause.steps) == (0.2, 3)


@pytest.mark.parametrize(
    "treatment",
    [
        Treatment(factor=1 / 64),
        Treatment(clip=NORM, limit=0.5),
        Treatment(factor=0.5, clip=VALUE, limit=0.25),
        Treatment(zeroed=False),
    ],
)
def test_a_treatment_of_gradients_is_found_out(treatment: Treatment) -> None:
    sums = [{"a": gradient, "b": gradient[0] * 2} for gradient in GRADIENTS]
    results: list[Any] = []
    for step in range(STEPS):
        start = sums[step] if treatment.zeroed else carry_over(sums[: step + 1], [*results, {}])[-1]
        results.append(treatment.result(start))
    assert next(treatments(sums, results, Treatment())) == treatment


def test_gradients_of_another_network_have_no_treatment() -> None:
    sums = [{"w": gradient} for gradient in GRADIENTS]
    assert list(treatments(sums, [{"w": np.tanh(gradient)} for gradient in GRADIENTS], Treatment())) == []


@pytest.mark.parametrize("number", [1e-3, 0.95, 0.999, 3e-4, 1 / 3, 1 / 64])
def test_plain_numbers_contain_what_a_person_writes(number: float) -> None:
    assert any(abs(plain / number - 1) < 1e-12 for plain in plain_numbers(number * (1 + 1e-9)))


def test_least_squares() -> None:
    x = np.linspace(0, 1, 20)
    numbers = least_squares(lambda n: n[0] * np.exp(n[1] * x) - 2 * np.exp(-x), np.array([1.0, 0.0]))
    np.testing.assert_allclose(numbers, [2, -1], rtol=1e-7)
