"""Values are called what the source of their own side calls them, and tables are shown with their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.parity.causes.source_words import result_in_words
from cellbridge.parity.results.cause import Cause
from cellbridge.runtime.ir.types import Source

pytestmark = pytest.mark.causes

Forward = Callable[["Network", torch.Tensor], torch.Tensor]


class Network(nn.Module):
    def __init__(self, forward: Forward, takes_other: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.rnn, self._forward, self._takes_other = nn.Linear(6, 12), nn.LSTM(6, 6), forward, takes_other
        self.register_buffer("inv_freq", torch.arange(1.0, 7.0) ** -0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(self, x)


def chunks(net: Network, x: torch.Tensor) -> torch.Tensor:
    a, b = net.qkv(x).chunk(2, 1)
    return a.tanh() * (a if net._takes_other else b) + b


def sizes(net: Network, x: torch.Tensor) -> torch.Tensor:
    a, b = torch.split(net.qkv(x), [4, 8], 1)
    return a.sum() + (b.exp().sum() if not net._takes_other else a.exp().sum()) + b.sum()


def parts(net: Network, x: torch.Tensor) -> torch.Tensor:
    a, b, c = net.qkv(x).split(4, dim=-1)
    return a.tanh() * (c if net._takes_other else b) + c


def elements(net: Network, x: torch.Tensor) -> torch.Tensor:
    a, b, c = net.qkv(x).view(-1, 3, 4).unbind(1)
    return a.tanh() * (c if net._takes_other else b) + c


def several(net: Network, x: torch.Tensor) -> torch.Tensor:
    y, order = net.qkv(x).topk(4)
    return y.tanh() * (order.float() if net._takes_other else y) + order.float()


def products(net: Network, x: torch.Tensor) -> torch.Tensor:
    y = net.qkv(x)
    a, b = y * 2, y * y
    return (a * y + b * 3).tanh() + (a if net._takes_other else b)


def turns(net: Network, x: torch.Tensor) -> torch.Tensor:
    y, results = net.qkv(x), []
    for _ in range(3):
        y = y.sin()
        results.append(y)
    return results[2].tanh() + results[0 if net._takes_other else 1]


def states(net: Network, x: torch.Tensor) -> torch.Tensor:
    y, (h, c) = net.rnn(x)
    return (c if net._takes_other else h).tanh() + y


def tables(net: Network, x: torch.Tensor) -> torch.Tensor:
    frequencies = net.inv_freq if net._takes_other else torch.exp(torch.arange(0, 6) * -0.5)
    return (x * frequencies).sin()


def cause_of(reference: nn.Module, candidate: nn.Module, *inputs: torch.Tensor) -> Cause:
    report = parity.compare(reference, candidate, inputs, probe=False)
    (cause,) = report.cells[report.failing[0]].causes
    return cause


WORDS = {
    chunks: ("the first chunk of `net.qkv(x).chunk(2, 1)`", "the second chunk of `net.qkv(x).chunk(2, 1)`"),
    parts: ("the third part of `net.qkv(x).split(4, dim=-1)`", "the second part of `net.qkv(x).split(4, dim=-1)`"),
    sizes: (
        "the first part of `torch.split(net.qkv(x), [4, 8], 1)`",
        "the second part of `torch.split(net.qkv(x), [4, 8], 1)`",
    ),
    elements: (
        "the third element of `net.qkv(x).view(-1, 3, 4).unbind(1)`",
        "the second element of `net.qkv(x).view(-1, 3, 4).unbind(1)`",
    ),
    products: ("the result of `y * 2`", "the result of `y * y`"),
    turns: ("the result of `y.sin()` (call 1 of 3)", "the result of `y.sin()` (call 2 of 3)"),
    states: ("[1][1] of what rnn returns", "[1][0] of what rnn returns"),
    tables: ("inv_freq", "the result of `torch.exp(torch.arange(0, 6) * -0.5)`"),
}
"""What the candidate and the reference take."""


@pytest.mark.parametrize("forward", WORDS)
@pytest.mark.every(4)
def test_a_value_is_called_what_the_source_calls_it(forward: Forward) -> None:
    cause = cause_of(Network(forward, False), Network(forward, True), torch.randn(5, 6))
    candidate, reference = WORDS[forward]
    assert f" is {candidate} in the candidate, {reference} in the reference" in cause.summary


def test_tables_are_shown_with_their_numbers() -> None:
    cause = cause_of(Network(tables, False), Network(tables, True), torch.randn(5, 6))
    assert cause.values == (
        "[1, 0.707107, 0.57735, 0.5, ...] in the candidate; [1, 0.606531, 0.367879, 0.22313, ...] in the reference; "
        "the largest difference is 0.326, at [5]"
    )
    candidate = Network(tables, True)
    candidate.inv_freq = candidate.inv_freq + torch.rand(6)
    stored = cause_of(Network(tables, True), candidate, torch.randn(5, 6))
    assert stored.summary == "inv_freq has other values in the candidate"
    assert "[1, 0.707107, 0.57735, 0.5, ...] in the reference; the largest difference is" in stored.values


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * mask + x


class Candidate(Reference):
    def forward(self, hidden: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        return self.inner(attention) * attention + hidden


def test_inputs_are_called_what_their_own_side_calls_them() -> None:
    reference, candidate = Reference(), Candidate()
    candidate.load_state_dict(reference.state_dict())
    cause = cause_of(reference, candidate, torch.randn(2, 4), torch.rand(2, 4))
    assert "the input attention in the candidate, the input x in the reference" in cause.summary


class InPlace(Candidate):
    def forward(self, hidden: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        y = self.inner(hidden) * attention.clone() + hidden
        attention.mul_(2)
        return y


def test_an_input_changed_in_place_has_the_name_of_the_side_that_changes_it() -> None:
    reference, candidate = Reference(), InPlace()
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (torch.randn(2, 4), torch.rand(2, 4)), probe=False)
    assert "it changes its input attention in place" in " ".join(str(report).split())


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (x + x)


LINES = {
    "y = " + "x + " * 5000 + "x": "the result of add 1 of 2 in `y = x + x",
    "y = " + "(" * 150 + "x + x" + ")" * 150: "the result of `x + x` (call 1 of 2)",
    "y = f(x +": "the result of add 1 of 2 in `y = f(x +`",
    "": "",
}


@pytest.mark.parametrize("text", LINES, ids=range(len(LINES)))
def test_lines_are_read_as_far_as_they_can_be_parsed(text: str) -> None:
    program = from_torch(Twice(), (torch.randn(2),))
    source = (Source("a.py", 3, text, "aten.add.Tensor") for _ in program.nodes)
    nodes = [replace(node, source=line) for node, line in zip(program.nodes, source, strict=True)]
    program = program.replace(nodes=tuple(node for node in nodes if node.op == "add"))
    words = result_in_words(program, program.nodes[0])
    assert words.startswith(LINES[text])
    assert bool(words) == bool(text)
