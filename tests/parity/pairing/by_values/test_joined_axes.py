"""Ports that compute the rows of all samples together, also behind a fault."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

WIDTH, INNER = 4, 6


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(WIDTH, INNER))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.matrix)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm, self.last = Mix(), nn.LayerNorm(INNER), nn.Linear(INNER, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.mix(x))).tanh()  # type: ignore[no-any-return]


class Rows(nn.Module):
    """Has the samples and steps along one axis, and another function in place of the first tanh."""

    def __init__(self, like: Network) -> None:
        super().__init__()
        self.matrix, self.scale, self.out = (
            nn.Parameter(like.mix.matrix.detach()),
            nn.LayerNorm(INNER),
            nn.Linear(INNER, 2),
        )
        self.scale.load_state_dict(like.norm.state_dict())
        self.out.load_state_dict(like.last.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        y = torch.sigmoid(x.reshape(-1, WIDTH) @ self.matrix)
        return self.out(self.scale(y)).tanh().view(*x.shape[:2], 2)


@pytest.mark.slow
def test_cells_behind_a_fault_are_found_in_rows() -> None:
    torch.manual_seed(0)
    module = Network()
    report = parity.compare(module, Rows(module), torch.randn(3, 5, WIDTH), probe=False)
    assert report.failing == ["mix"], str(report)
    assert {path for path, cell in report.cells.items() if cell.comparisons} == {"", "mix", "norm", "last"}
