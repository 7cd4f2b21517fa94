"""Ports that step through a sequence: some keep only the last state, and in some no step is right."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, SIZE = 4, 3


class Reader(nn.Module):
    """Returns scores from the last state, which comes with the states of all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.rnn, self.head = nn.LayerNorm(WIDTH), nn.RNN(WIDTH, SIZE), nn.Linear(SIZE, 2)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.rnn(self.norm(x))
        return self.head(states[-1].sigmoid())  # type: ignore[no-any-return]


class Stepper(nn.Module):
    def __init__(self, like: Reader, leak: float) -> None:
        super().__init__()
        self.scale, self.leak, self.out = nn.LayerNorm(WIDTH), leak, nn.Linear(SIZE, 2)
        self.read, self.keep = nn.Linear(WIDTH, SIZE), nn.Linear(SIZE, SIZE)
        self.scale.load_state_dict(like.norm.state_dict())
        self.out.load_state_dict(like.head.state_dict())
        for layer, kind in ((self.read, "ih"), (self.keep, "hh")):
            layer.load_state_dict({name: getattr(like.rnn, f"{name}_{kind}_l0") for name in ("weight", "bias")})

    def forward(self, x: Tensor) -> Tensor:
        state, x = x.new_zeros(x.shape[1], SIZE), self.scale(x)
        for step in range(x.shape[0]):
            state = torch.tanh(self.read(x[step]) + self.keep(state)) + self.leak * state
        return self.out(state.sigmoid())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("leak", "failing"), [(0.0, []), (0.1, ["rnn"])])
@pytest.mark.every(2)
def test_the_recurrent_layer_alone_is_accused(leak: float, failing: list[str]) -> None:
    torch.manual_seed(0)
    module = Reader()
    report = parity.compare(module, Stepper(module, leak), (torch.randn(4, 2, WIDTH),), seed=0)
    assert report.failing == failing, str(report)
    assert {path for path, cell in report.cells.items() if cell.comparisons} == {"", "norm", "rnn", "head"}


class Tagger(nn.Module):
    """Scores all states, and returns the last one beside the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.second = nn.RNN(WIDTH, SIZE, batch_first=True), nn.RNN(SIZE, SIZE, batch_first=True)
        self.head = nn.Linear(SIZE, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        states, last = self.rnn(x)
        return self.head(self.second(states)[0].sigmoid()), last[-1]


class Steps(nn.Module):
    def __init__(self, like: nn.RNN) -> None:
        super().__init__()
        self.read, self.keep = nn.Linear(like.input_size, SIZE), nn.Linear(SIZE, SIZE)
        for layer, kind in ((self.read, "ih"), (self.keep, "hh")):
            layer.load_state_dict({name: getattr(like, f"{name}_{kind}_l0") for name in ("weight", "bias")})

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.read(x) + self.keep(state))


class SteppingTagger(nn.Module):
    def __init__(self, like: Tagger, leak: float) -> None:
        super().__init__()
        self.lower, self.upper = Steps(like.rnn), Steps(like.second)
        self.leak, self.out = leak, nn.Linear(SIZE, 2)
        self.out.load_state_dict(like.head.state_dict())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = second = x.new_zeros(x.shape[0], SIZE)
        lower, upper = [], []
        for step in range(x.shape[1]):
            state = self.lower(x[:, step], first)
            first = state + self.leak * first if self.leak else state
            lower.append(first)
        for state in lower:
            second = self.upper(state, second)
            upper.append(second)
        return self.out(torch.stack(upper, 1).sigmoid()), first


@pytest.mark.slow
@pytest.mark.parametrize(("leak", "failing"), [(0.0, []), (0.1, ["rnn"])])
@pytest.mark.every(2)
def test_a_last_state_that_is_returned_does_not_get_past_the_layer(leak: float, failing: list[str]) -> None:
    torch.manual_seed(0)
    module = Tagger()
    report = parity.compare(module, SteppingTagger(module, leak), (torch.randn(2, 4, WIDTH),), seed=0)
    assert report.failing == failing, str(report)
    assert not any("gradients not judged by themselves" in note for note in report.notes), str(report)


class Sums(nn.Module):
    """Gated sums of all that came before, by heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(4), nn.Linear(6, 4)
        self.value, self.gate = nn.Linear(4, 6, bias=False), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return self.out(self.gate(x).sigmoid() * self.value(x).cumsum(1))  # type: ignore[no-any-return]


class SteppingSums(nn.Module):
    """The same step by step, with heads of their own."""

    def __init__(self, like: Sums) -> None:
        super().__init__()
        self.scale, self.doors, self.last = like.norm, like.gate, like.out
        self.heads = nn.Parameter(like.value.weight.detach().view(2, 3, 4).clone())

    def forward(self, x: Tensor) -> Tensor:
        x, state, results = self.scale(x), x.new_zeros(len(x), 2, 3), []
        for step in x.unbind(1):
            state = state + torch.einsum("bw,hkw->bhk", step, self.heads)
            results.append(self.last(self.doors(step).sigmoid() * state.flatten(1)))
        return torch.stack(results, 1)


def test_layers_that_a_port_applies_to_each_step_are_judged_by_themselves() -> None:
    torch.manual_seed(0)
    module = Sums()
    report = parity.compare(module, SteppingSums(module), (torch.randn(2, 5, 4),), probe=False)
    assert report.ok, str(report)
    assert all(report.cells[path].comparisons for path in ("norm", "value", "gate", "out")), str(report)


class LastReader(nn.Module):
    """Scores the states, and returns the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.RNN(WIDTH, SIZE, batch_first=True), nn.Linear(SIZE, 2)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        states, last = self.rnn(x[:, None], state[None])
        return self.head(states[:, 0]), last[0]


class SingleStep(nn.Module):
    """The same for its one step, whose state is both."""

    def __init__(self, like: LastReader, leak: float) -> None:
        super().__init__()
        self.cell, self.out, self.leak = nn.RNNCell(WIDTH, SIZE), like.head, leak
        self.cell.load_state_dict({name.removesuffix("_l0"): value for name, value in like.rnn.state_dict().items()})

    def forward(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        now = self.cell(x, before) + self.leak * before
        return self.out(now), now


@pytest.mark.parametrize(("leak", "failing"), [(0.0, []), (0.1, [""])])
def test_a_single_step_may_return_its_state_once(leak: float, failing: list[str]) -> None:
    torch.manual_seed(0)
    module = LastReader()
    arguments = torch.randn(2, WIDTH), torch.randn(2, SIZE)
    report = parity.compare(module, SingleStep(module, leak), arguments, probe=False)
    assert report.failing == failing, str(report)
