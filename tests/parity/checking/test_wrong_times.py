"""Wrong features of a number of steps: a port that computes them wrongly has the layers that take them right."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity

WIDTH, HALF = 6, 4


def features(steps: Tensor, divisor: int) -> tuple[Tensor, Tensor]:
    angles = steps[:, None].float() * torch.exp(-5.0 * torch.arange(HALF) / divisor)
    return angles.cos(), angles.sin()


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of_time = nn.Sequential(nn.Linear(2 * HALF, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        x = self.first(x) + self.of_time(torch.cat(features(steps, HALF), -1))
        return self.last(x.relu())  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, like: Network, divisor: int, *, in_parts: bool) -> None:
        super().__init__()
        self.divisor, self.in_parts = divisor, in_parts
        self.w, self.b = nn.ParameterList(), nn.ParameterList()
        for layer in (like.of_time[0], like.of_time[2], like.first, like.last):
            assert isinstance(layer, nn.Linear)
            self.w.append(layer.weight.detach().T.clone())
            self.b.append(layer.bias.detach().clone())

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        cosines, sines = features(steps, self.divisor)
        if self.in_parts:
            y = cosines @ self.w[0][:HALF] + sines @ self.w[0][HALF:] + self.b[0]
        else:
            y = torch.cat([cosines, sines], -1) @ self.w[0] + self.b[0]
        y = (y * y.sigmoid()) @ self.w[1] + self.b[1]
        return F.relu(x @ self.w[2] + self.b[2] + y) @ self.w[3] + self.b[3]


@pytest.mark.parametrize("steps", [[3, 711], [711]])
@pytest.mark.parametrize(
    ("divisor", "in_parts"), [(HALF, False), (HALF - 1, False), (HALF - 1, True)], ids=["right", "wrong", "in parts"]
)
def test_no_layer_is_accused(steps: list[int], divisor: int, in_parts: bool) -> None:
    torch.manual_seed(0)
    network = Network()
    arguments = torch.randn(len(steps), WIDTH), torch.tensor(steps)
    report = parity.compare(network, Port(network, divisor, in_parts=in_parts), arguments, probe=False)
    assert report.failing == ([] if divisor == HALF else [""]), str(report)
    assert {"of_time.2", "first", "last"} <= {path for path, cell in report.cells.items() if cell.comparisons}
    assert bool(report.cells["of_time.0"].comparisons) != in_parts
