"""Cells of a recurrence that return two states, of which the second is computed first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity

SIZE, STATE, STEPS, LAYERS = 3, 4, 3, 2
State = tuple[Tensor, Tensor]


class Cell(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(size + STATE, 4 * STATE)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> State:
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList(Cell(SIZE if layer == 0 else STATE) for layer in range(LAYERS))

    def forward(self, x: Tensor) -> list[State]:
        rows, states = list(x.unbind(1)), []
        for cell in self.cells:
            h = c = torch.zeros(len(x), STATE)
            for step, row in enumerate(rows):
                h, c = rows[step], _ = cell(row, h, c)
            states.append((h, c))
        return states


class Steps(nn.Module):
    """All layers of a step after each other, a product for the state, and gates in another order."""

    def __init__(self, of: Recurrence, forget_bias: float) -> None:
        super().__init__()
        self.of_input = nn.ModuleList(nn.Linear(SIZE if layer == 0 else STATE, 4 * STATE) for layer in range(LAYERS))
        self.of_state = nn.ModuleList(nn.Linear(STATE, 4 * STATE, bias=False) for _ in range(LAYERS))
        self.forget_bias = forget_bias
        order = torch.arange(4 * STATE).view(4, STATE)[[0, 1, 3, 2]].flatten()
        for cell, of_input, of_state in zip(of.cells, self.of_input, self.of_state, strict=True):
            weight, bias = cell.gates.weight[order], cell.gates.bias[order]
            size = of_input.in_features
            of_input.load_state_dict({"weight": weight[:, :size], "bias": bias})
            of_state.load_state_dict({"weight": weight[:, size:]})

    def forward(self, x: Tensor) -> list[State]:
        zeros = torch.zeros(len(x), STATE)
        states = [(zeros, zeros)] * LAYERS
        for row in x.unbind(1):
            for layer, (h, c) in enumerate(states):
                i, f, g, o = (self.of_input[layer](row) + self.of_state[layer](h)).chunk(4, 1)
                c = torch.sigmoid(f + self.forget_bias) * c + torch.sigmoid(i) * torch.tanh(g)
                row = torch.sigmoid(o) * torch.tanh(c)
                states[layer] = (row, c)
        return states


def test_a_wrong_gate_is_in_the_cell_of_each_layer() -> None:
    torch.manual_seed(0)
    reference = Recurrence()
    report = parity.compare(reference, Steps(reference, 1.0), (torch.randn(2, STEPS, SIZE),), probe=False)
    assert report.failing == ["cells.0", "cells.1"], str(report)
