"""A value that a loop carries on, detached, as a part of what a Cell returns (RAFT passes the flow on)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

SIZE, STATE = 2, 5


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(SIZE, STATE), nn.Linear(STATE, 4)

    def forward(self, flow: Tensor) -> Tensor:
        return torch.cat([torch.relu(self.second(torch.relu(self.first(flow)))), flow], -1)


class Update(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.gate, self.head = Encoder(), nn.Linear(4 + SIZE + 2 * STATE, STATE), nn.Linear(STATE, SIZE)

    def forward(self, state: Tensor, context: Tensor, flow: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(self.gate(torch.cat([state, context, self.encoder(flow)], -1)))
        return state, self.head(state)


class Refinement(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start, self.update = nn.Linear(STATE, 2 * STATE), Update()

    def forward(self, x: Tensor) -> Tensor:
        state, context = self.start(x).chunk(2, -1)
        start = torch.arange(float(SIZE)).expand(len(x), SIZE)
        end = start + 0
        for _ in range(3):
            end = end.detach()
            state, step = self.update(state, context, end - start)
            end = end + step
        return end - start


class Flat(nn.Module):
    """The same without coordinates, and with all that the encoder returns in one line."""

    def __init__(self, of: Refinement) -> None:
        super().__init__()
        update = of.update
        self.first, self.second = copy.deepcopy(update.encoder.first), copy.deepcopy(update.encoder.second)
        self.begin, self.gate, self.head = (copy.deepcopy(m) for m in (of.start, update.gate, update.head))

    def forward(self, x: Tensor) -> Tensor:
        state, context = self.begin(x).chunk(2, -1)
        flow = torch.zeros(len(x), SIZE)
        for _ in range(3):
            flow = self.carried(flow)
            motion = self.second(self.first(flow).relu()).relu()
            state = self.gate(torch.cat([state, context, motion, flow], -1)).tanh()
            flow = flow + self.head(state)
        return flow

    def carried(self, flow: Tensor) -> Tensor:
        return flow.detach()


class NotDetached(Flat):
    def carried(self, flow: Tensor) -> Tensor:
        return flow


def compared(port: type[Flat]) -> Report:
    torch.manual_seed(0)
    reference = Refinement()
    return parity.compare(reference, port(reference), (torch.randn(3, STATE),), probe=False)


def test_a_detached_value_that_is_passed_on_is_taken_where_it_is_used() -> None:
    report = compared(Flat)
    assert report.ok, report
    judged = {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)}
    assert {"update", "update.encoder", "update.encoder.first", "update.gate", "update.head"} <= judged


def test_a_value_that_isnt_detached_is_still_told() -> None:
    assert not compared(NotDetached).ok
