"""Recurrent layers written out with one bias, the sum of the layer's two, and with gates in another order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, SIZE = 4, 3
ORDER = (1, 0, 3, 2)
"""f, i, o, g; torch's gates are i, f, g, o."""


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(WIDTH, SIZE), nn.Linear(SIZE, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])  # type: ignore[no-any-return]


class Written(nn.Module):
    """Has one layer for all gates, or one for two of them."""

    def __init__(self, like: Reader, layers: int, biases: tuple[str, ...]) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(WIDTH + SIZE, 4 // layers * SIZE) for _ in range(layers))
        self.out = nn.Linear(SIZE, 2)
        self.out.load_state_dict(like.head.state_dict())
        rows = torch.cat([torch.arange(SIZE) + SIZE * gate for gate in ORDER])
        weight = torch.cat((like.lstm.weight_ih_l0, like.lstm.weight_hh_l0), 1)[rows].detach()
        bias = sum((getattr(like.lstm, name) for name in biases), torch.zeros(4 * SIZE))[rows].detach()
        for layer, *tensors in zip(self.gates, weight.chunk(layers), bias.chunk(layers), strict=True):
            layer.load_state_dict(dict(zip(("weight", "bias"), tensors, strict=True)))

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[1], SIZE)
        states = []
        for step in x:
            joined = torch.cat((step, h), -1)
            f, i, o, g = torch.cat([layer(joined) for layer in self.gates], -1).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        return self.out(torch.stack(states))  # type: ignore[no-any-return]


BIASES = ("bias_ih_l0", "bias_hh_l0")


@pytest.mark.parametrize(("layers", "biases", "failing"), [(1, BIASES, []), (2, BIASES, []), (1, BIASES[:1], ["lstm"])])
@pytest.mark.every(3)
def test_one_bias_has_the_gradient_of_both(layers: int, biases: tuple[str, ...], failing: list[str]) -> None:
    torch.manual_seed(0)
    module = Reader()
    report = parity.compare(module, Written(module, layers, biases), (torch.randn(3, 2, WIDTH),), seed=0)
    assert report.failing == failing, str(report)
    if not failing:
        compared = {
            c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"
        }
        assert compared >= {f"lstm.{name}" for name in BIASES}
