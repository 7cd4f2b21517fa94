"""What is left out or added is named by its operand, as a person would, with the line of the difference."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.causes.descriptions import place_of_node
from cellbridge.parity.results.cause import Cause
from cellbridge.runtime.ir.types import Node, Source

pytestmark = pytest.mark.causes


def masked(scores: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    return scores + hidden  # the line of the mask


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.bias = nn.Linear(8, 24, bias=False), nn.Parameter(torch.randn(8))
        self.positions, self._left_out = nn.Parameter(torch.randn(5, 8)), ""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self._left_out == "positions" else x + self.positions
        q, k, v = self.qkv(y).chunk(3, -1)
        scores = q @ k.transpose(-1, -2)
        scores = scores if self._left_out == "scale" else scores * 0.125
        hidden = torch.full((5, 5), float("-inf")).triu(1)
        scores = scores if self._left_out == "mask" else masked(scores, hidden)
        y = scores.softmax(-1)
        y = y.softmax(-1) if self._left_out == "one softmax" else y
        y = y @ v
        y = y if self._left_out == "bias" else y + self.bias
        return y if self._left_out == "residual" else x + y


WORDS = {
    "positions": "the position embedding positions isn't added in the candidate",
    "scale": "the scale 0.125 isn't applied in the candidate",
    "mask": "the attention mask isn't added in the candidate",
    "bias": "the bias bias isn't added in the candidate",
    "residual": "the residual, the input x, isn't added in the candidate",
}


def cause_of(reference: nn.Module, candidate: nn.Module) -> Cause:
    x = torch.linspace(-2, 2, 80).reshape(2, 5, 8)
    report = parity.compare(reference, candidate, (x,))
    (cause,) = report.cells[report.failing[0]].causes
    return cause


def pair(name: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    whole = Attention()
    without = copy.deepcopy(whole)
    without._left_out = name
    return whole, without


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.every(3)
def test_what_is_left_out_is_named(name: str) -> None:
    cause = cause_of(*pair(name))
    assert cause.summary.startswith(WORDS[name])
    assert name != "mask" or "the line of the mask" in cause.summary


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.every(3)
def test_what_is_there_in_addition_is_named(name: str) -> None:
    cause = cause_of(*reversed(pair(name)))
    noun, _, verb = WORDS[name].partition(" isn't ")
    assert cause.summary == f"{noun} is {verb} in addition"
    assert name != "mask" or "the line of the mask" in cause.source


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.usefixtures("opaque_candidates")
@pytest.mark.every(3)
def test_the_catalogue_names_it_alike(name: str) -> None:
    assert cause_of(*pair(name)).summary.startswith(WORDS[name])


def test_what_is_computed_twice_is_said() -> None:
    assert cause_of(*pair("one softmax")).summary == "softmax is computed twice in the candidate"


class Caching(nn.Module):
    """Returns what a Cell inside computes by another way than its result, as caches do."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept: list[torch.Tensor] = []
        hook = self.attention.qkv.register_forward_hook(lambda _, __, result: kept.append(result))
        y = self.attention(x)
        hook.remove()
        return y, kept[0]


def test_outputs_prove_a_cause_where_a_value_leaves_by_another_way() -> None:
    torch.manual_seed(0)
    whole = Caching()
    without = copy.deepcopy(whole)
    without.attention._left_out = "mask"
    cause = cause_of(whole, without)
    assert cause.summary.startswith(WORDS["mask"])


def test_an_operator_of_torch_is_no_place() -> None:
    assert place_of_node(Node("neg", (), {}, (), 0, Source("", 0, "", "aten.detach.default"))) == ""
    assert place_of_node(Node("neg", (), {}, (), 0, Source("", 0, "", "Neg 'n'"))) == "Neg 'n'"
    assert place_of_node(Node("neg", (), {}, (), 0, Source("a.py", 3, "-x", "aten.neg.default"))) == "a.py:3: -x"


class Residuals(nn.Module):
    def __init__(self, whole: bool, around: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self._whole, self._around = nn.Linear(8, 8), nn.Linear(8, 8), whole, around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).tanh()
        z = self.second(y if self._around else x)
        return y + z if self._whole else z


def test_a_residual_leads_around_a_cell() -> None:
    cause = cause_of(Residuals(True, True), Residuals(False, True))
    assert cause.summary.startswith("the residual, the result of `self.first(x).tanh()`, isn't added in the candidate")
    beside = cause_of(Residuals(True, False), Residuals(False, False))
    assert "residual" not in beside.summary
