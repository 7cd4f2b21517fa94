"""Two tables in each other's place in a port that holds all tables in one: both are named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

pytestmark = pytest.mark.causes

SIZES, WIDTH = (7, 5, 7, 9), 4


class Tables(nn.Module):
    """A table for each kind of words, and the products of what they give."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tables = nn.ModuleList(nn.EmbeddingBag(size, WIDTH, mode="sum") for size in SIZES)
        self.last = nn.Linear(len(SIZES) ** 2, 3)

    def forward(self, words: Tensor) -> Tensor:
        rows = [table(words[:, n : n + 1]) for n, table in enumerate(self.tables)]
        y = torch.cat(rows, 1).view(words.shape[0], -1, WIDTH)
        return self.last(torch.bmm(y, y.transpose(1, 2)).flatten(1))  # type: ignore[no-any-return]


class Joined(nn.Module):
    """The same with all rows in one table."""

    def __init__(self, weights: Sequence[Tensor], last: nn.Linear) -> None:
        super().__init__()
        self.weight, self.out = nn.Parameter(torch.cat([*weights]).detach()), nn.Linear(len(SIZES) ** 2, 3)
        self.out.load_state_dict(last.state_dict())
        self.register_buffer("offsets", torch.tensor([0, *SIZES[:-1]]).cumsum(0))

    def forward(self, words: Tensor) -> Tensor:
        y = nn.functional.embedding(words + self.offsets, self.weight)
        return self.out((y @ y.mT).flatten(1))  # type: ignore[no-any-return]


def compared(order: Sequence[int], scale: float = 1.0) -> Report:
    reference = Tables()
    weights = [reference.tables[n].weight for n in order]
    weights[0] = weights[0] * scale
    words = torch.stack([torch.arange(6) * (n + 1) % size for n, size in enumerate(SIZES)], 1)
    return parity.compare(reference, Joined(weights, reference.last), (words,), probe=False)


def test_tables_in_one_are_the_same_network() -> None:
    assert compared((0, 1, 2, 3)).ok


def test_two_tables_in_each_others_place_are_named() -> None:
    report = compared((2, 1, 0, 3))
    (cause,) = [cause for path in report.failing for cause in report.cells[path].causes]
    assert cause.summary == "tables.0.weight and tables.2.weight are exchanged in the candidate"
    assert cause.error < 1e-11


@pytest.mark.slow
def test_a_table_of_other_numbers_is_not_exchanged() -> None:
    report = compared((0, 1, 2, 3), 0.5)
    causes = [cause for path in report.failing for cause in report.cells[path].causes]
    assert report.failing
    assert not any("exchanged" in cause.summary for cause in causes)
