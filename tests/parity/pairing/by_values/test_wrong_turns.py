"""Wrong turns of a recurrence: behind each, the next is wrong, too, so that only the last says where it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

SIZE, STATE, STEPS = 3, 4, 3


class Step(nn.Module):
    """Resets the state before the product."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input, self.gates = nn.Linear(SIZE, 3 * STATE), nn.Linear(STATE, 2 * STATE)
        self.new = nn.Linear(STATE, STATE)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        x_r, x_z, x_n = self.of_input(x).chunk(3, -1)
        h_r, h_z = self.gates(h).chunk(2, -1)
        update = torch.sigmoid(x_z + h_z)
        return (1 - update) * torch.tanh(x_n + self.new(torch.sigmoid(x_r + h_r) * h)) + update * h


class Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step, self.head = Step(), nn.Linear(STATE, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(len(x), STATE)
        for row in x.unbind(1):
            h = self.step(row, h)
        return self.head(h)


class Port(nn.Module):
    """torch's unit, which resets after the product, and of whose two equal results one is read."""

    def __init__(self, of: Recurrence) -> None:
        super().__init__()
        self.unit, self.out = nn.GRUCell(SIZE, STATE), nn.Linear(STATE, 2)
        step = of.step
        state = {f"{name}_ih": value for name, value in step.of_input.state_dict().items()}
        for name, gates in step.gates.state_dict().items():
            state[f"{name}_hh"] = torch.cat([gates, step.new.state_dict()[name]])
        self.unit.load_state_dict(state)
        self.out.load_state_dict(of.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(len(x), STATE)
        for row in x.unbind(1):
            h = self.unit(row, h)
        return self.out(h)


def test_each_turn_has_the_place_of_the_last() -> None:
    torch.manual_seed(0)
    reference = Recurrence()
    report = parity.compare(reference, Port(reference), (torch.randn(2, STEPS, SIZE),), probe=False)
    assert report.failing == ["step"], str(report)
