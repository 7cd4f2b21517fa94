"""Weights of torch's recurrent layers brought into loops over cells, and back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from tests.parity.pairing.by_structure.networks import QUICKLY, drawn

FEATURES, HIDDEN = 4, 5


class Layer(nn.Module):
    """A layer of torch, and what reads its outputs."""

    def __init__(self, kind: str, **settings: bool) -> None:
        super().__init__()
        layers = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
        self.layer = layers[kind](FEATURES, HIDDEN, batch_first=True, **settings)
        self.head = nn.Linear(HIDDEN * (1 + self.layer.bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layer(x)[0])
        return result


class LongShort(nn.Module):
    """A product of inputs and state as one, and gates in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(FEATURES + HIDDEN, 4 * HIDDEN)

    def forward(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        h, c = states
        gates = self.gates(torch.cat((x, h), -1))
        i, f, o = gates[:, : 3 * HIDDEN].sigmoid().chunk(3, -1)
        c = f * c + i * gates[:, 3 * HIDDEN :].tanh()
        return [o * c.tanh(), c]


class Gated(nn.Module):
    """A layer for each gate."""

    def __init__(self) -> None:
        super().__init__()
        self.of_x = nn.ModuleList(nn.Linear(FEATURES, HIDDEN) for _ in range(3))
        self.of_h = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def forward(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        (h,) = states
        n, z, r = (layer(x) for layer in self.of_x)
        z, r = torch.sigmoid(z + self.of_h[1](h)), torch.sigmoid(r + self.of_h[2](h))
        n = torch.tanh(n + r * self.of_h[0](h))
        return [n + z * (h - n)]


class Simple(nn.Module):
    """Two matrices, and one bias."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u = nn.Parameter(torch.zeros(FEATURES, HIDDEN)), nn.Parameter(torch.zeros(HIDDEN, HIDDEN))
        self.b = nn.Parameter(torch.zeros(HIDDEN))

    def forward(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        (h,) = states
        return [torch.tanh(x @ self.w + h @ self.u + self.b)]


CELLS = {"lstm": (LongShort, 2), "gru": (Gated, 1), "rnn": (Simple, 1)}


class Loop(nn.Module):
    """A loop over a cell, or over one from the left and one from the right."""

    def __init__(self, kind: str, bidirectional: bool = False) -> None:
        super().__init__()
        cell, self.states = CELLS[kind]
        self.cells = nn.ModuleList(cell() for _ in range(1 + bidirectional))
        self.last = nn.Linear(HIDDEN * len(self.cells), 3)

    def forward(self, x: Tensor) -> Tensor:
        directions = []
        for number, cell in enumerate(self.cells):
            states = [x.new_zeros(len(x), HIDDEN)] * self.states
            outputs = []
            for t in range(x.shape[1])[:: -1 if number else 1]:
                states = cell(x[:, t], states)
                outputs.append(states[0])
            directions.append(torch.stack(outputs[:: -1 if number else 1], 1))
        result: Tensor = self.last(torch.cat(directions, -1))
        return result


def series() -> tuple[Tensor, ...]:
    return (torch.randn(3, 4, FEATURES, generator=torch.Generator().manual_seed(3)),)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", CELLS)
def test_a_loop_in_both_directions_gets_the_weights_of_a_layer(kind: str) -> None:
    reference, candidate = drawn(Layer(kind, bidirectional=True), 0), drawn(Loop(kind, bidirectional=True), 1)
    report = parity.compare(reference, candidate, series(), load_weights=True, **QUICKLY)
    assert report.ok, report
    assert not any("not loaded" in note for note in report.notes)


@pytest.mark.parametrize("kind", CELLS)
def test_a_layer_gets_the_weights_of_a_loop(kind: str) -> None:
    report = parity.compare(drawn(Loop(kind), 0), drawn(Layer(kind), 1), series(), load_weights=True, **QUICKLY)
    assert report.ok, report
    assert not any("not loaded" in note for note in report.notes)


def test_a_layer_with_states_and_a_projection() -> None:
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(FEATURES, HIDDEN, proj_size=2)

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
            result: Tensor = self.layer(x, (h, c))[1][0]
            return result

    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of_h, self.of_x = nn.Linear(2, 4 * HIDDEN), nn.Linear(FEATURES, 4 * HIDDEN, bias=False)
            self.project = nn.Linear(HIDDEN, 2, bias=False)

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
            h, c, of_x = h[0], c[0], self.of_x(x)
            for part in of_x:
                i, f, g, o = (part + self.of_h(h)).chunk(4, -1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = self.project(o.sigmoid() * c.tanh())
            return h[None]

    generator = torch.Generator().manual_seed(3)
    inputs = tuple(torch.randn(shape, generator=generator) for shape in ((4, 3, FEATURES), (1, 3, 2), (1, 3, HIDDEN)))
    report = parity.compare(drawn(Projected(), 0), drawn(Written(), 1), inputs, load_weights=True, **QUICKLY)
    assert report.ok, report
