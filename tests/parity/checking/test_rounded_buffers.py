"""A table in float32, and the same numbers computed when the port runs: neither network is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity

WIDTH = 6


class Decay(nn.Module):
    """In parallel, with a table of logarithms, as in a retentive network."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_decay", torch.log(1 - 2 ** (-1.0 - torch.arange(WIDTH) / 3)))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        index = torch.arange(x.shape[1]).to(x)
        apart = index[:, None] - index
        assert isinstance(self.log_decay, Tensor)
        mask = torch.exp(apart * self.log_decay[:, None, None]).masked_fill(apart < 0, 0.0)
        return self.out(self.norm(torch.einsum("wij,bjw->biw", mask, x)))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, WIDTH)
        self.mix = Decay()
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.mix(self.first(x))))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Step by step, with numbers of double precision."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.enter, self.scale, self.project, self.leave = (
            network.first,
            network.mix.norm,
            network.mix.out,
            network.last,
        )
        self.decays = [1 - 0.5 ** (1 + channel / 3) for channel in range(WIDTH)]

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = torch.tensor(self.decays, dtype=x.dtype) * state + x[:, t]
            normal = F.layer_norm(state, (WIDTH,), self.scale.weight, self.scale.bias)
            states.append(F.linear(normal, self.project.weight, self.project.bias))
        return self.leave(torch.stack(states, dim=1).tanh())  # type: ignore[no-any-return]


def _compared(factor: float = 1.0) -> parity.Report:
    torch.manual_seed(0)
    network = Network()
    port = Port(network)
    port.decays = [factor * decay for decay in port.decays]
    return parity.compare(network, port, (torch.randn(2, 5, 4),), probe=False)


def test_numbers_that_one_side_rounded_are_no_fault() -> None:
    report = _compared()
    assert report.ok
    compared = {path for path, cell in report.cells.items() for c in cell.comparisons if c.kind == "output"}
    assert compared >= {"mix", "mix.norm", "mix.out"}


@pytest.mark.parametrize("factor", [1 + 1e-5, 1 - 1e-5])
def test_other_numbers_are(factor: float) -> None:
    assert _compared(factor).failing == ["mix"]
