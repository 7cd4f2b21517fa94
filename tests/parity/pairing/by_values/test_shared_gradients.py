"""Gradients that a port's values share otherwise than the module's: of all states and the last one, of keys."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

INPUTS = (torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)),)


class Reader(nn.Module):
    """Uses all states of a layer, and the last one again; keys of all states are compared with two queries."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.key, self.out = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, last = self.gru(x)
        keys = self.key(states)
        query = last[0].sin()
        for _ in range(2):
            query = (torch.softmax(keys @ query[:, :, None], 1) * states).sum(1)
        y: Tensor = self.out(query)
        return y


class Step(nn.Module):
    """A cell of a plain recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(9, 5)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.linear(torch.cat((x, h), -1)))


class Cells(nn.Module):
    """A loop over a cell that returns all states, and the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Step()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros(2, 5)
        steps = []
        for step in x.unbind(1):
            h = self.cell(step, h)
            steps.append(h)
        return torch.stack(steps, 1), h[None]


class ReaderOfCells(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.gru = Cells()  # type: ignore[assignment]


class Port(nn.Module):
    """The same as a loop over a cell; keys are computed for each query."""

    def __init__(self, reference: Reader) -> None:
        super().__init__()
        self.w, self.head = reference.key, reference.out
        self.cell = Step() if isinstance(reference, ReaderOfCells) else nn.GRUCell(4, 5)
        weights = reference.gru.state_dict()
        self.cell.load_state_dict({name.removeprefix("cell.").removesuffix("_l0"): w for name, w in weights.items()})

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(2, 5)
        steps = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            steps.append(h)
        memory = torch.stack(steps, 1)
        h = h.sin()
        for _ in range(2):
            scores = torch.einsum("bth,bh->bt", self.w(memory), h)
            h = torch.einsum("bt,bth->bh", scores.softmax(-1), memory)
        y: Tensor = self.head(h)
        return y


@pytest.mark.parametrize("kind", [Reader, ReaderOfCells])
def test_the_last_state_and_all_states_have_a_gradient_each_and_keys_one(kind: type[Reader]) -> None:
    reference = kind()
    report = parity.compare(reference, Port(reference), INPUTS)
    assert {cell.status for cell in report.cells.values()} == {"pass"}, str(report)
