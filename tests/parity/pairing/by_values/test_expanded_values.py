"""A context that the reference expands along time, and the port broadcasts where it is added."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from cellbridge import parity

TIME, WIDTH = 4, 5


class Selection(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.context = nn.Linear(WIDTH, 3), nn.Linear(6, 3, bias=False)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.features(x) + self.context(context))


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.static, self.selection, self.out = nn.Linear(2, 6), Selection(), nn.Linear(3, 2)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        context = self.static(z).relu().unsqueeze(1).expand(-1, x.shape[1], -1)
        return self.out(self.selection(x, context))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, of: Reference) -> None:
        super().__init__()
        modules = (of.static, of.selection.features, of.selection.context, of.out)
        self.a, self.b, self.c, self.d = (copy.deepcopy(module) for module in modules)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return self.d(torch.tanh(self.b(x) + self.c(self.a(z).relu()[:, None])))  # type: ignore[no-any-return]


def test_a_repeated_value_isnt_taken_for_parts_one_after_the_other() -> None:
    torch.manual_seed(0)
    reference = Reference()
    arguments = torch.randn(2, TIME, WIDTH), torch.randn(2, 2)
    report = parity.compare(reference, Port(reference), arguments, probe=False)
    assert report.ok, report
    assert "parameters" not in report.conditions_in_words
    judged = {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)}
    assert {"static", "selection.features", "out"} <= judged
