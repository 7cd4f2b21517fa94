"""Two torch modules, each trained by its own script."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge.parity import assert_training_parity, compare_training
from cellbridge.runtime.errors import UsageError
from fixtures.planted_faults.recipes import Recipe, torch_script

ADAMW = Recipe("AdamW", {"lr": 0.01, "weight_decay": 0.1})
GENERATOR = torch.Generator().manual_seed(0)
DATA = [(torch.randn(4, 6, generator=GENERATOR), torch.randn(4, 3, generator=GENERATOR)) for _ in range(4)]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(torch.tanh(self.norm(self.first(x)))))


class Wrapper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.module = Network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


def train(network: nn.Module, batches: Iterable[Any], zeroed: bool = True) -> Iterator[torch.Tensor]:
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for x, y in batches:
        if zeroed:
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), y)
        loss.backward()
        optimizer.step()
        yield loss


def train_by_hand(network: nn.Module, batches: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The same, written otherwise."""
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for x, y in batches:
        loss = (network(x) - y).square().mean()
        for parameter, gradient in zip(
            network.parameters(), torch.autograd.grad(loss, list(network.parameters())), strict=True
        ):
            parameter.grad = gradient
        optimizer.step()
        yield loss


def test_other_weights_dropout_and_a_wrapper_agree() -> None:
    reference, candidate = Network(), Wrapper()
    before = copy.deepcopy(candidate.state_dict())
    report = compare_training(reference, candidate, train, train_by_hand, DATA)
    report.raise_if_failed()
    assert report.sides == ["candidate"]
    assert {c.kind for c in report.comparisons} == {"loss", "parameter", "buffer"}
    assert {c.check for c in report.comparisons} == {"meaning", "rounding"}
    assert all(torch.equal(value, before[name]) for name, value in candidate.state_dict().items())


def test_an_argument_of_the_optimizer_is_named() -> None:
    candidate_recipe = replace(ADAMW, arguments={"lr": 0.01, "weight_decay": 0.01})
    report = compare_training(Network(), Network(), torch_script(ADAMW), torch_script(candidate_recipe), DATA)
    (cause,) = report.causes
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == ("weight_decay", 0.1, 0.01)


def test_gradients_that_are_not_zeroed_are_named() -> None:
    report = compare_training(Network(), Network(), train, functools.partial(train, zeroed=False), DATA)
    assert not report.ok
    assert ["gradients" in cause.summary and "zero" in cause.summary for cause in report.causes] == [True]


@pytest.mark.slow
def test_another_network_is_named() -> None:
    candidate = Network()
    candidate.drop.p = 0.0
    report = compare_training(Network(), candidate, train, train, DATA)
    assert not report.ok
    assert any("drew random numbers 0 times" in problem or "drop" in problem for problem in report.problems), report


def test_parameters_of_one_alone_fail() -> None:
    candidate = Network()
    candidate.last.bias = None
    candidate.extra = nn.Parameter(torch.ones(2))
    report = compare_training(Network(), candidate, train, train, DATA)
    assert "last.bias: the candidate has no such parameter" in report.problems
    assert "extra: only the candidate has this parameter" in report.problems


def test_a_frozen_parameter_fails() -> None:
    candidate = Network()
    candidate.first.weight.requires_grad_(False)
    with pytest.raises(AssertionError, match=r"first\.weight: frozen in the candidate, trained in torch"):
        assert_training_parity(Network(), candidate, train, train, DATA)


@pytest.mark.slow
def test_cells_pair_other_names() -> None:
    class Renamed(Network):
        def __init__(self) -> None:
            super().__init__()
            self.head = self.last
            del self.last

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.drop(torch.tanh(self.norm(self.first(x)))))

    report = compare_training(Network(), Renamed(), train, train, DATA, cells={"head": "last"})
    report.raise_if_failed()
    assert not compare_training(Network(), Renamed(), train, train, DATA).ok


def test_weights_are_for_ports() -> None:
    with pytest.raises(UsageError, match="`weights` is for a Cell"):
        compare_training(Network(), Network(), train, train, DATA, weights={"first.weight": "first.weight"})
