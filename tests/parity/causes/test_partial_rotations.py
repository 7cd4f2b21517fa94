"""Rotary embeddings of a part of each head: a port that rotates the other end of it is told, and one that may."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]

SIZE, TURNED = 6, 4
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


def turned(x: Tensor, rate: float) -> Tensor:
    angles = torch.arange(5)[:, None] * torch.tensor([1.0, rate]).repeat(2)
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-b, a), -1) * angles.sin()


class Attention(nn.Module):
    def __init__(self, end: str, rate: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = nn.Linear(8, 2 * SIZE), nn.Linear(8, 2 * SIZE), nn.Linear(8, 2 * SIZE)
        self._end, self._rate = end, rate

    def _with_positions(self, x: Tensor) -> Tensor:
        if self._end == "first":
            return torch.cat((turned(x[..., :TURNED], self._rate), x[..., TURNED:]), -1)
        return torch.cat((x[..., :-TURNED], turned(x[..., -TURNED:], self._rate)), -1)

    def forward(self, x: Tensor) -> Tensor:
        layers = (self.query, self.key, self.value)
        q, k, v = (layer(x).unflatten(-1, (2, SIZE)).transpose(1, 2) for layer in layers)
        q, k = self._with_positions(q), self._with_positions(k)
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


def compared(reference: nn.Module, candidate: nn.Module) -> Report:
    candidate.load_state_dict(reference.state_dict())
    return parity.compare(reference, candidate, (X,), probe=False)


@pytest.mark.parametrize(("reference_end", "candidate_end"), [("first", "last"), ("last", "first")])
def test_elements_at_the_other_end_are_told(reference_end: str, candidate_end: str) -> None:
    (cause,) = compared(Attention(reference_end), Attention(candidate_end)).cells[""].causes
    assert cause.summary == (
        f"the {candidate_end} 4 of each 6 elements of what query returns and what key returns are rotated, or changed "
        f"otherwise, in the candidate, the {reference_end} 4 in the reference"
    )
    assert cause.error < 1e-11


@pytest.mark.slow
def test_other_angles_are_no_other_elements() -> None:
    causes = compared(Attention("first"), Attention("first", 0.2)).cells[""].causes
    assert not any("are rotated" in cause.summary for cause in causes)


@pytest.mark.slow
def test_other_elements_with_other_angles_are_not_these_elements_alone() -> None:
    causes = compared(Attention("first"), Attention("last", 0.2)).cells[""].causes
    assert not any("are rotated" in cause.summary for cause in causes)


class Halved(nn.Module):
    """Half of the channels pass through a Cell, as in ShuffleNet."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.branch, self._number = nn.Conv1d(4, 4, 3, padding=1), number

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.transpose(1, 2).chunk(2, 1)
        return torch.cat((first, self.branch(second)) if self._number else (self.branch(first), second), 1)


def test_the_other_half_of_channels() -> None:
    (cause,) = compared(Halved(1), Halved(0)).cells[""].causes
    assert "the first 4 of" in cause.summary
    assert "in the candidate, the last 4 in the reference" in cause.summary
