"""A tensor that the module gives two Cells, and that a port computes for each of them anew."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.merge = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.merge(self.left(x).tanh() * self.right(y))  # type: ignore[no-any-return]


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Mixed(), Mixed()
        self.norm = nn.LayerNorm(4)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.second(x + y, self.norm(self.first(x + y, y)))  # type: ignore[no-any-return]


class Rows(nn.Module):
    """The port: samples and their rows are one axis."""

    def __init__(self, reference: Twice, eps: float) -> None:
        super().__init__()
        first, second = reference.first, reference.second
        self.a, self.b, self.c = first.left, first.right, first.merge
        self.d, self.e, self.f = second.left, second.right, second.merge
        self.scale, self.shift, self.eps = reference.norm.weight, reference.norm.bias, eps

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        shape, x, y = x.shape, x.flatten(0, 1), y.flatten(0, 1)
        h = self.c(self.a(x + y).tanh() * self.b(y))
        h = nn.functional.layer_norm(h, (4,), self.scale, self.shift, self.eps)
        return self.f(self.d(y + x).tanh() * self.e(h)).reshape(shape)  # type: ignore[no-any-return]


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_both_cells_are_given_what_the_port_computes_for_them(eps: float) -> None:
    torch.manual_seed(0)
    reference = Twice()
    inputs = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    report = parity.compare(reference, Rows(reference, eps), inputs, probe=False)
    assert report.failing == (["norm"] if eps > 0.01 else [])
    assert {cell.module for cell in report.correspondence.cells} == {path for path, _ in reference.named_modules()}
    assert not any("get past" in note for note in report.notes)
