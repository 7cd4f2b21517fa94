"""Tables of positions that a network computes with as with data: multiplied, normed, and taken apart by heads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

WIDTH, HEADS, WORDS = 6, 2, 5
DISTANCES = (torch.arange(WORDS)[:, None] - torch.arange(WORDS)).abs()


def waves() -> Tensor:
    return (torch.arange(WORDS)[:, None] * 0.7 ** torch.arange(WIDTH)).sin()


class Scores(nn.Module):
    """Scores of words and distances, gathered from those of each distance."""

    def __init__(self, is_learned: bool) -> None:
        super().__init__()
        self.query, self.distance = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.table = nn.Parameter(torch.zeros(WORDS, WIDTH)) if is_learned else None
        self.norm = nn.LayerNorm(WIDTH) if is_learned else nn.Identity()

    def rows(self) -> Tensor:
        result: Tensor = self.norm(waves() if self.table is None else self.table)
        return result

    def forward(self, x: Tensor) -> Tensor:
        q = self.query(x).unflatten(-1, (HEADS, -1)).permute(2, 0, 1, 3).flatten(1, 2)
        r = self.distance(self.rows()).unflatten(-1, (HEADS, -1)).permute(1, 2, 0)
        scores = torch.bmm(q, r).unflatten(1, (len(x), WORDS))
        return scores.gather(-1, DISTANCES.expand_as(scores)).transpose(0, 1).softmax(-1)


class TakenRows(Scores):
    """The same with a row for each pair of words."""

    def forward(self, x: Tensor) -> Tensor:
        q = self.query(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        r = self.distance(self.rows()).unflatten(-1, (HEADS, -1)).transpose(0, 1)
        return torch.einsum("bhid,hijd->bhij", q, r[:, DISTANCES]).softmax(-1)


@pytest.mark.parametrize("is_learned", [False, True])
def test_what_a_table_of_positions_goes_through_is_found(is_learned: bool) -> None:
    reference, candidate = drawn(Scores(is_learned), 0), drawn(TakenRows(is_learned), 1)
    args = (torch.randn(2, WORDS, WIDTH, generator=torch.Generator().manual_seed(3)),)
    torch.testing.assert_close(drawn(TakenRows(is_learned), 0)(*args), reference(*args))
    arrays = load_by_structure(reference, ModulePort(candidate), args, {}).arrays
    wrong = [n for n, p in reference.named_parameters() if not torch.equal(torch.as_tensor(arrays[n]), p)]
    assert wrong == []
