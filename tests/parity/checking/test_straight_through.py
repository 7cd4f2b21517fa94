"""A straight-through estimator returns the numbers of its codes, but the gradient is that of what it is given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, CODES = 6, 5


class Quantizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.codebook = nn.Embedding(CODES, WIDTH)
        nn.init.normal_(self.codebook.weight, std=0.4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.mT.reshape(-1, WIDTH)
        nearest = torch.cdist(rows, self.codebook.weight).argmin(1)
        codes = self.codebook(nearest).view(x.shape[0], -1, WIDTH).mT
        return x + (codes - x).detach(), (codes - x.detach()).square().mean() + (x - codes.detach()).square().mean()


class Coder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(2, WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.quantizer, self.last = Quantizer(), nn.Conv1d(WIDTH, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        x, loss = self.quantizer(x + self.second(x.tanh()))
        return self.last(x.relu()), loss


class Port(nn.Module):
    """The same with channels last."""

    def __init__(self, like: Coder, factor: float) -> None:
        super().__init__()
        self.factor, self.codes = factor, nn.Parameter(like.quantizer.codebook.weight.detach().clone())
        self.layers = nn.ModuleList(
            nn.Linear(c.in_channels, c.out_channels) for c in (like.first, like.second, like.last)
        )
        for layer, conv in zip(self.layers, (like.first, like.second, like.last), strict=True):
            assert conv.bias is not None
            layer.load_state_dict({"weight": conv.weight[:, :, 0], "bias": conv.bias})

    def forward(self, signal: Tensor) -> tuple[Tensor, Tensor]:
        first, second, last = self.layers
        h = first(signal.mT)
        e = h + second((self.factor * h).tanh())
        q = self.codes[torch.cdist(e, self.codes.expand(e.shape[0], -1, -1)).argmin(-1)]
        loss = (q - e.detach()).square().mean() + (e - q.detach()).square().mean()
        e = e + (q - e).detach()
        return last(e.relu()).mT, loss


@pytest.mark.parametrize(("factor", "failing"), [(1.0, []), (-1.0, [""])])
def test_the_estimator_is_not_accused_of_what_is_wrong_before_it(factor: float, failing: list[str]) -> None:
    torch.manual_seed(0)
    module = Coder()
    report = parity.compare(module, Port(module, factor), (torch.randn(2, 2, 7),), probe=False)
    assert report.failing == failing, str(report)
    assert report.cells["quantizer"].comparisons
