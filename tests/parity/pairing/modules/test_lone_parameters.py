"""Parameters that only one side has fail only where something differs or nothing takes their place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.structure import LONE_PARAMETER
from tests.parity.pairing.modules.networks import X, network


class Apart(nn.Module):
    """A linear layer as two, one for each half of the outputs."""

    def __init__(self, whole: nn.Linear) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)
        parts = zip((self.first, self.second), whole.weight.chunk(2), whole.bias.chunk(2), strict=True)
        for layer, weight, bias in parts:
            layer.weight, layer.bias = (nn.Parameter(part.detach().clone()) for part in (weight, bias))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), self.second(x)], -1)


def apart() -> Any:
    candidate = network()
    candidate.blocks[0].up = Apart(candidate.blocks[0].up)
    return candidate


def test_parameters_divided_differently_hold_and_are_named() -> None:
    report = parity.compare(network(), apart(), (X,))
    assert report.ok, report
    lone = [difference for difference in report.structure if difference.kind == LONE_PARAMETER]
    assert [difference.name for difference in lone] == [
        "blocks.0.up.weight",
        "blocks.0.up.bias",
        *(f"blocks.0.up.{half}.{name}" for half in ("first", "second") for name in ("weight", "bias")),
    ]
    assert all("its gradient was not compared" in difference.text for difference in lone)
    assert {difference.around for difference in lone} == {"blocks.0.up"}


def test_a_wrong_value_of_such_a_parameter_fails_there() -> None:
    candidate = apart()
    with torch.no_grad():
        candidate.blocks[0].up.second.weight[0, 0] += 1e-4
    report = parity.compare(network(), candidate, (X,))
    assert report.failing == ["blocks.0.up"]
    assert {c.tensor for c in report.cells["blocks.0.up"].failures if c.kind == "parameter"} == {
        "blocks.0.up.weight",
        "blocks.0.up.bias",
        *(f"blocks.0.up.{half}.{name}" for half in ("first", "second") for name in ("weight", "bias")),
    }


def test_frozen_parameters_take_no_place() -> None:
    candidate = apart()
    candidate.blocks[0].up.requires_grad_(False)
    report = parity.compare(network(), candidate, (X,))
    assert report.failing == ["blocks.0.up"]
    assert "trains nothing in its place" in str(report)


@pytest.mark.parametrize("how", ["left out", "buffer"])
@pytest.mark.every(2)
def test_a_parameter_that_the_candidate_does_not_train_fails_even_if_it_is_zero(how: str) -> None:
    reference, candidate = network(), network()
    for module in (reference, candidate):
        nn.init.zeros_(module.get_parameter("head.bias"))
    head: Any = candidate.get_submodule("head")
    head.bias = None
    if how == "buffer":
        del head.bias
        head.register_buffer("bias", torch.zeros(2))
    report = parity.compare(reference, candidate, (X,))
    assert report.failing == ["head"]


def test_a_parameter_that_nothing_uses_is_no_failure() -> None:
    for reference, candidate in ((network(), unused()), (unused(), network())):
        report = parity.compare(reference, candidate, (X,))
        assert report.ok
        assert [(d.name, d.around) for d in report.structure] == [("scale", "")]


def unused() -> nn.Module:
    module = network()
    module.scale = nn.Parameter(torch.ones(1))
    return module
