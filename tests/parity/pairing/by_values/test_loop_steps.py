"""Ports that step through a sequence and keep only the last state, of which no step is right."""

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
def test_the_recurrent_layer_alone_is_accused(leak: float, failing: list[str]) -> None:
    torch.manual_seed(0)
    module = Reader()
    report = parity.compare(module, Stepper(module, leak), (torch.randn(4, 2, WIDTH),), seed=0)
    assert report.failing == failing, str(report)
    assert {path for path, cell in report.cells.items() if cell.comparisons} == {"", "norm", "rnn", "head"}
