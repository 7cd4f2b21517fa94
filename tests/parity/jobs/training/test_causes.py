"""Faults planted in training scripts are named with the right numbers, and proved by replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from cellbridge.parity import check_training, compare_training
from cellbridge.parity.jobs.training import program_steps
from cellbridge.parity.report.junit import to_xml
from cellbridge.runtime import Tensor, ops, optim
from cellbridge.runtime import nn as cells
from fixtures.planted_faults import trained_networks
from fixtures.planted_faults.recipes import Recipe, cell_script, torch_script

SGD = Recipe("SGD", {"lr": 0.1})
HEAVY = Recipe("SGD", {"lr": 0.1, "momentum": 0.9})
ADAM = Recipe("Adam", {"lr": 0.01})
ADAMW = Recipe("AdamW", {"lr": 0.01, "weight_decay": 0.1})
CLIPPED = replace(SGD, clip="norm", limit=0.1)
SCALED = replace(ADAM, arguments={"lr": 0.01, "eps": 1e-4}, scale=64.0)
SUMMED = replace(SGD, accumulate=2)


def compare(
    recipe: Recipe, *, network: str = "mlp", port: Mapping[str, Any] | None = None, cell: Any = None, **changes: Any
) -> Any:
    """Train a network by a recipe, and its port by the recipe with changes."""
    module, network_cell, data = trained_networks.make(network, **(port or {}))
    arguments = {**recipe.arguments, **changes.pop("arguments", {})}
    candidate_recipe = replace(recipe, arguments={k: v for k, v in arguments.items() if v is not None}, **changes)
    return compare_training(module, cell or network_cell, torch_script(recipe), cell_script(candidate_recipe), data[:6])


def cause_values(report: Any) -> set[tuple[str, Any, Any]]:
    assert not report.ok
    assert all(cause.steps and cause.error < 1e-6 for cause in report.causes)
    return {(cause.attribute, cause.reference_value, cause.candidate_value) for cause in report.causes}


@pytest.mark.parametrize(
    ("recipe", "arguments", "expected"),
    [
        (SGD, {"lr": 0.11}, ("lr", 0.1, 0.11)),
        (SGD, {"weight_decay": 0.003}, ("weight_decay", 0.0, 0.003)),
        (HEAVY, {"momentum": 0.95}, ("momentum", 0.9, 0.95)),
        (HEAVY, {"momentum": 0.0}, ("momentum", 0.9, 0.0)),
        (SGD, {"momentum": 0.9}, ("momentum", 0.0, 0.9)),
        (HEAVY, {"dampening": 0.1}, ("dampening", 0.0, 0.1)),
        (HEAVY, {"nesterov": True}, ("nesterov", False, True)),
        (ADAM, {"lr": 0.001}, ("lr", 0.01, 0.001)),
        (ADAM, {"betas": (0.8, 0.999)}, ("betas[0]", 0.9, 0.8)),
        (ADAM, {"betas": (0.9, 0.9999)}, ("betas[1]", 0.999, 0.9999)),
        (ADAM, {"eps": 1e-6}, ("eps", 1e-8, 1e-6)),
        (ADAM, {"amsgrad": True}, ("amsgrad", False, True)),
        (ADAMW, {"weight_decay": 0.01}, ("weight_decay", 0.1, 0.01)),
    ],
)
@pytest.mark.every(9)
def test_an_argument_of_the_optimizer(recipe: Recipe, arguments: Any, expected: tuple[str, Any, Any]) -> None:
    report = compare(recipe, arguments=arguments)
    assert cause_values(report) == {expected}
    assert {cause.kind for cause in report.causes} == {"optimizer"}
    assert report.explanations == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "changes", "expected", "words"),
    [
        (ADAMW, {"optimizer": "Adam"}, ("optimizer", "AdamW", "Adam"), "coupled (added to the gradient)"),
        (ADAM, {"optimizer": "SGD"}, ("optimizer", "Adam", "SGD"), "the optimizer is SGD"),
        (
            ADAM,
            {"optimizer": "nn.AdamWeightDecay", "arguments": {"lr": None, "learning_rate": 0.01, "eps": 1e-8}},
            ("bias correction", True, False),
            "no bias correction",
        ),
        (
            replace(ADAM, arguments={"lr": 0.01, "eps": 1e-4}),
            {"optimizer": "nn.Adam", "arguments": {"lr": None, "learning_rate": 0.01}},
            ("eps place", "corrected root", "uncorrected root"),
            "before the bias correction",
        ),
        (CLIPPED, {"limit": 0.2}, ("limit", 0.1, 0.2), "clipped to 0.2"),
        (CLIPPED, {"clip": None}, ("clip", "norm", "none"), "aren't clipped"),
        (CLIPPED, {"clip": "value"}, ("clip", "norm", "value"), "by value"),
        (CLIPPED, {"clip": "each"}, ("clip", "norm", "each"), "by itself"),
        (replace(CLIPPED, scale=64.0), {"clipped_first": True}, ("clip order", "after", "before"), "loss scale"),
        (SCALED, {"unscaled": False}, ("loss scale", 1.0, 64.0), "the loss scale of 64 isn't divided out"),
        (SGD, {"zeroed": False}, ("zero_grad", True, False), "aren't set to zero"),
        (ADAM, {"zeroed": False}, ("zero_grad", True, False), "aren't set to zero"),
        (SUMMED, {"averaged": False}, ("accumulation", 1.0, 2.0), "of 2 batches are summed"),
        (SGD, {"reduction": "sum"}, ("reduction", 1.0, 8.0), "the sum over the 8 examples"),
        (
            replace(SGD, factors=(0.2, 0.4, 0.6, 0.8, 1.0, 1.2)),
            {"factors": (0.2, 0.2, 0.4, 0.6, 0.8, 1.0)},
            ("lr schedule", None, None),
            "late by one step",
        ),
        (replace(ADAM, factors=(1.0, 0.5)), {"factors": ()}, ("lr schedule", None, None), "has no schedule"),
    ],
)
@pytest.mark.every(18)
def test_another_step(recipe: Recipe, changes: Any, expected: tuple[str, Any, Any], words: str) -> None:
    report = compare(recipe, **changes)
    assert cause_values(report) == {expected}
    assert words in report.causes[0].summary


def test_parameters_that_only_one_side_trains_are_named() -> None:
    (cause,) = compare(replace(ADAM, frozen="fc1"), frozen=None).causes
    assert cause.summary == "fc1.weight, fc1.bias: trained in the candidate, frozen in the reference"
    (cause,) = compare(ADAM, frozen="fc1").causes
    assert cause.summary.startswith("fc1.weight, fc1.bias: not updated in the candidate")


def test_a_group_with_other_numbers_is_named() -> None:
    (cause,) = compare(ADAMW, bare=True).causes
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == ("weight_decay", 0.1, 0.0)
    assert cause.summary.startswith("fc1.bias, norm.weight, norm.bias and 1 more: weight decay")


@pytest.mark.parametrize(
    ("recipe", "changes", "expected"),
    [
        (
            HEAVY,
            {"arguments": {"momentum": 0.8, "nesterov": True}},
            {("momentum", 0.9, 0.8), ("nesterov", False, True)},
        ),
        (CLIPPED, {"clip": None, "arguments": {"lr": 0.05}}, {("clip", "norm", "none"), ("lr", 0.1, 0.05)}),
        (
            ADAM,
            {"arguments": {"lr": 0.02, "betas": (0.8, 0.99)}},
            {("lr", 0.01, 0.02), ("betas[0]", 0.9, 0.8), ("betas[1]", 0.999, 0.99)},
        ),
    ],
)
@pytest.mark.every(3)
def test_several_faults_are_named_together(recipe: Recipe, changes: Any, expected: Any) -> None:
    report = compare(recipe, **changes)
    assert cause_values(report) == expected
    assert {cause.together for cause in report.causes} == {len(expected)}


class TanhCell(trained_networks.MlpCell):
    def construct(self, x: Tensor) -> Tensor:
        return self.fc2(ops.gelu(self.norm(self.fc1(x)), approximate="tanh"))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [SGD, ADAM])
@pytest.mark.every(2)
def test_a_fault_in_the_network_names_no_optimizer(recipe: Recipe) -> None:
    report = compare(recipe, cell=TanhCell())
    assert not report.ok
    assert report.causes == []
    assert report.explanations[0].startswith("the gradients differ already in step 1, at the same parameters")
    assert report.explanations[1].startswith("on the first batch, the network itself differs")


def test_a_script_that_does_not_go_the_candidates_way_is_told() -> None:
    module, cell, data = trained_networks.make("mlp")
    limit = 3.0

    def careful(network: Any, batches: Any) -> Any:
        for loss in torch_script(SGD)(network, batches):
            if loss > limit:
                raise RuntimeError("it diverges")
            yield loss

    wrong = replace(SGD, arguments={"lr": 30.0})
    report = compare_training(module, cell, careful, cell_script(wrong), data)
    assert not report.ok
    assert report.causes == []
    assert "raises RuntimeError: it diverges" in report.explanations[0]


def test_the_loss_and_modes_are_named_where_the_networks_agree() -> None:
    (cause,) = compare(SGD, network="cnn", train=False).causes
    assert (cause.kind, cause.summary) == (
        "state", "the network is in eval mode in the candidate, in train mode in the reference"
    )  # fmt: skip
    (cause,) = compare(SGD, network="cnn", port={"batch_statistics": False}).causes
    assert "the norms use their moving statistics" in cause.summary


def test_the_momentum_of_statistics() -> None:
    report = compare(ADAM, network="cnn", port={"momentum": 0.1}, arguments={"lr": 0.02})
    assert cause_values(report) == {("lr", 0.01, 0.02), ("momentum", 0.1, 0.1)}
    assert report.causes[1].fix == "write momentum=0.9"


@pytest.mark.parametrize("recipe", [HEAVY, ADAMW, CLIPPED, SUMMED, replace(SCALED, factors=(1.0, 0.5))])
@pytest.mark.every(3)
def test_sound_training_names_nothing(recipe: Recipe) -> None:
    report = compare(recipe)
    assert report.ok
    assert report.causes == report.explanations == []


@pytest.mark.slow
def test_an_optimizer_that_is_no_form_of_the_reference_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellbridge.parity.jobs.training.proofs.WORK", 3e8)
    report = compare(ADAM, optimizer="nn.Lamb", arguments={"lr": None, "learning_rate": 0.01})
    assert not report.ok
    assert report.causes == []
    assert any("the search for causes was cut at its limit of work: " in text for text in report.explanations)


def test_differences_in_rounding_alone_have_no_cause() -> None:
    """In float32 the gradients are noise of that size, in which any number could be read."""
    module, cell, data = trained_networks.make("mlp")
    cell.to_float(cells.Dense(1, 1).weight.dtype)

    def rounded(network: Any, batches: Any) -> Any:
        for loss in cell_script(SGD)(network, batches):
            for parameter in network.get_parameters():
                if parameter.dtype.name == "float32":
                    parameter.set_data(parameter * (1 + 3e-5))
            yield loss

    report = compare_training(module, cell, torch_script(SGD), rounded, data[:3])
    assert {c.check for c in report.failures} == {"rounding"}
    assert report.causes == []


def test_the_report_says_what_was_proved_and_what_to_do() -> None:
    report = compare(ADAM, arguments={"lr": 0.001})
    text = " ".join(str(report).split())
    assert "cause, proved: the learning rate lr is 0.001 in the candidate, 0.01 in the reference" in text
    assert "the replayed updates agree to" in text
    assert "over 6 steps to fix: set lr to 0.01" in text
    (written,) = report.to_dict()["causes"]
    assert (written["kind"], written["steps"], written["candidate_value"]) == ("optimizer", 6, 0.001)
    failures = [failure.text or "" for failure in to_xml(report).iter("failure")]
    assert any("cause, proved: the learning rate lr" in text for text in failures)


class WrongEps(optim.Adam):
    def __init__(self, params: Any, **arguments: Any) -> None:
        super().__init__(params, **arguments, eps=1e-4)


@pytest.mark.slow
def test_a_captured_network_that_trains_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim, "Adam", WrongEps)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    report = check_training(module, (torch.randn(5, 6),), optimizer="adam", steps=3)
    assert cause_values(report) == {("eps", 1e-8, 1e-4)}


@pytest.mark.parametrize(
    ("options", "changes", "expected"),
    [
        ({"optimizer": "momentum"}, {"weight_decay": 0.1}, {("weight_decay", 0.0, 0.1)}),
        ({"optimizer": "momentum"}, {"optimizer": "nesterov"}, {("nesterov", False, True)}),
        ({"clip_norm": 0.1}, {"clip_norm": 0.01}, {("limit", 0.1, 0.01)}),
    ],
)
@pytest.mark.every(3)
def test_a_compiled_step_that_trains_otherwise(
    options: Any, changes: Any, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It computes in float32, and its updates are replayed from its own gradients."""
    make = program_steps.ProgramSteps.__init__

    def wrong(self: Any, name: str, program: Any, batches: Any, config: Any, *more: Any) -> None:
        make(self, name, program, batches, replace(config, **(changes if name == "compiled" else {})), *more)

    monkeypatch.setattr(program_steps.ProgramSteps, "__init__", wrong)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    report = check_training(module, (torch.randn(5, 6),), steps=4, **options)
    assert {(cause.attribute, cause.reference_value, cause.candidate_value) for cause in report.causes} == expected
    assert report.explanations == []
