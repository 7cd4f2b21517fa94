"""A value that is read in another place, in another shape: that it is reshaped there isn't what is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity

pytestmark = pytest.mark.causes


class Gate(nn.Module):
    """Chooses by scores with a bias, and weights by those without."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.linear = nn.Linear(4, size)
        self.register_buffer("bias", torch.linspace(-0.4, 0.5, size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.linear(x).sigmoid()
        order = (scores + self.bias).topk(2)[1]
        return scores.gather(1, order) * 1.7, order


class Regrouped(Gate):
    """Has the scores in groups, and weights by those with the bias."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.linear(x).sigmoid() + self.bias
        scores = scores.view(len(x), 2, -1).flatten(1)
        order = scores.topk(2)[1]
        return scores.gather(1, order) * 1.7, order


def test_an_operand_is_named_not_the_reshape_behind_it() -> None:
    torch.manual_seed(0)
    reference, port = Gate(), Regrouped()
    port.load_state_dict(reference.state_dict())
    report = parity.compare(reference, port, torch.randn(5, 4), probe=False)
    (cause,) = report.cells[""].causes
    assert "x of gather is the result of `scores.view(len(x), 2, -1).flatten(1)` in the candidate" in cause.summary
    assert "the result of `self.linear(x).sigmoid()` in the reference" in cause.summary


class Products(nn.Module):
    """The products of each two of four vectors, those below the diagonal."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).view(-1, 4, 3)
        rows = torch.tensor([i for i in range(4) for j in range(i)])
        columns = torch.tensor([j for i in range(4) for j in range(i)])
        return self.last(torch.bmm(y, y.mT)[:, rows, columns].relu())  # type: ignore[no-any-return]


class Above(Products):
    """The same in the order of those above it, from one table."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).view(-1, 4, 3)
        i, j = torch.triu_indices(4, 4, 1)
        return self.last(torch.einsum("bif,bjf->bij", y, y)[:, i, j].relu())  # type: ignore[no-any-return]


def test_tables_that_are_used_together_are_named_by_their_numbers() -> None:
    torch.manual_seed(0)
    reference, port = Products(), Above()
    port.load_state_dict(reference.state_dict())
    report = parity.compare(reference, port, torch.randn(5, 6), probe=False)
    (cause,) = report.cells[""].causes
    assert cause.summary.endswith("the constant in gather_nd has other values in the candidate")
    assert cause.values.startswith("[0, 1, 0, 2, ...] in the candidate; [1, 0, 2, 0, ...] in the reference")
