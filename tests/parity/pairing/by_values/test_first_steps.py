"""The first step of a recurrence: its state is zeros, so that a product with them changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

SIZE, STATE, STEPS = 3, 4, 2


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(SIZE + STATE, 2 * STATE)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        gate, new = self.gates(torch.cat([x, h], 1)).chunk(2, 1)
        return torch.sigmoid(gate) * torch.tanh(new)


class Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(len(x), STATE)
        for row in x.unbind(1):
            h = self.cell(row, h)
        return h


class Port(nn.Module):
    """One product for the input and one for the state, and the gates in another order."""

    def __init__(self, of: Recurrence) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(SIZE, 2 * STATE), nn.Linear(STATE, 2 * STATE, bias=False)
        gates = of.cell.gates
        with torch.no_grad():
            self.of_input.weight.copy_(gates.weight[:, :SIZE].roll(STATE, 0))
            self.of_state.weight.copy_(gates.weight[:, SIZE:].roll(STATE, 0))
            self.of_input.bias.copy_(gates.bias.roll(STATE))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(len(x), STATE)
        for row in x.unbind(1):
            new, gate = (self.of_input(row) + self.of_state(h)).chunk(2, 1)
            h = torch.tanh(new) * torch.sigmoid(gate)
        return h


def test_gates_of_a_first_step_in_another_order_are_the_sum_of_both_products() -> None:
    torch.manual_seed(0)
    reference = Recurrence()
    report = parity.compare(reference, Port(reference), (torch.randn(2, STEPS, SIZE),), probe=False)
    assert report.ok, report
    kinds = {comparison.kind for comparison in report.cells["cell.gates"].comparisons}
    assert "parameter gradient" in kinds
