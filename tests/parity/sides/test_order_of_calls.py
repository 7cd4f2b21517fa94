"""A report knows in which order its Cells are called first, whatever the order in which a module defines them."""

from __future__ import annotations

import torch

from cellbridge import parity


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 2)
        self.unused = torch.nn.ReLU()
        self.stem = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stem(x))


def test_cells_have_the_position_of_their_first_call() -> None:
    report = parity.check(Network(), (torch.ones(2, 3),), sides=["interpreter"])
    assert {path: cell.entry for path, cell in report.cells.items()} == {"": 0, "head": 2, "unused": None, "stem": 1}
    assert [row.path for row in report.page().rows] == ["(root)", "stem", "head", "unused"]
    assert report.page().in_order
