"""Attention whose heads of queries share keys and values: repeated in another order, or read from other features."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.cause import Cause

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]

GROUPS, SIZE = 2, 3


class Attention(nn.Module):
    """Six heads of queries; keys and values are repeated for three of them each."""

    def __init__(self, in_groups: bool = True, one_by_one: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self._in_groups, self._one_by_one = nn.Linear(8, 10 * SIZE), in_groups, one_by_one

    def _parts(self, x: Tensor) -> list[Tensor]:
        y = self.qkv(x)
        if self._in_groups:
            y = y.unflatten(-1, (GROUPS, 5, SIZE))
            return [y[..., :3, :].flatten(2, 3), y[..., 3, :], y[..., 4, :]]
        return [part.unflatten(-1, (-1, SIZE)) for part in y.split([6 * SIZE, GROUPS * SIZE, GROUPS * SIZE], -1)]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.transpose(1, 2) for part in self._parts(x))
        k, v = (
            y[:, :, None].expand(-1, -1, 3, -1, -1) if self._one_by_one else y[:, None].expand(-1, 3, -1, -1, -1)
            for y in (k, v)
        )
        k, v = k.flatten(1, 2), v.flatten(1, 2)
        return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


def cause_of(reference: Attention, candidate: Attention) -> Cause:
    report = parity.compare(nn.Sequential(reference), nn.Sequential(candidate), (torch.randn(2, 4, 8),), probe=False)
    assert report.failing == ["0"]
    (cause,) = report.cells["0"].causes
    return cause


@pytest.mark.parametrize("one_by_one", [True, False])
def test_heads_that_are_repeated_in_another_order(one_by_one: bool) -> None:
    cause = cause_of(Attention(one_by_one=one_by_one), Attention(one_by_one=not one_by_one))
    words = ["elements are repeated all of them in turn (0, 1, 0, 1) in the candidate", "use repeat_interleave"]
    if not one_by_one:
        words = ["elements are repeated each element by itself (0, 0, 1, 1) in the candidate", "use repeat"]
    assert cause.summary.startswith(words[0])
    assert cause.fix == words[1]


@pytest.mark.parametrize("in_groups", [True, False])
def test_features_of_groups_that_are_read_kind_by_kind(in_groups: bool) -> None:
    cause = cause_of(Attention(in_groups), Attention(not in_groups))
    orders = ["kind by kind", "in groups of 3 heads of queries, one of keys and one of values"]
    in_candidate, in_reference = orders if in_groups else orders[::-1]
    assert cause.summary == (
        f"the features of what 0.qkv returns are read {in_candidate} in the candidate, and {in_reference} in the "
        "reference, as if rows of the weight were in another order"
    )


class Rotated(nn.Module):
    """Scores of rotated queries and keys, for angles that it is given."""

    def __init__(self, sign: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qk, self._sign = nn.Linear(8, 12), sign

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        parts = []
        for part in self.qk(x).chunk(2, -1):
            a, b = part.chunk(2, -1)
            b = b * self._sign  # with the results' second halves negated, too, which no product of both sees
            parts.append(torch.cat((a * cosines - b * sines, b * cosines + a * sines), -1))
        q, k = parts
        return q @ k.mT


class Positions(nn.Module):
    def __init__(self, sign: int = 1) -> None:
        super().__init__()
        self.scores = Rotated(sign)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(4, dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.3, 0.1], dtype=x.dtype)
        return self.scores(x, angles.cos(), angles.sin())


def test_features_that_are_rotated_the_other_way() -> None:
    report = parity.compare(Positions(), Positions(-1), (torch.randn(2, 4, 8),), probe=False)
    (cause,) = report.cells["scores"].causes
    assert cause.summary == "features are rotated the other way in the candidate: by the negative of the angle"


class Decaying(nn.Module):
    """A sum of what came before, which decays with distance."""

    def __init__(self, late: int = 0) -> None:
        super().__init__()
        self._late = late

    def forward(self, x: Tensor) -> Tensor:
        index = torch.arange(x.shape[1]).to(x)
        apart = index[:, None] - index
        far = apart + self._late if self._late else apart
        weights = torch.exp(far * torch.tensor([-0.5, -0.1]).to(x)[:, None, None])
        y: Tensor = (weights.masked_fill(apart < 0, 0.0) * x.sin()[:, None] @ x[:, None]).flatten(1)
        return y / y.norm(dim=1, keepdim=True)


def test_distances_that_are_larger_by_one_for_a_decay_alone() -> None:
    report = parity.compare(Decaying(), Decaying(1), (torch.randn(2, 4, 4),), probe=False)
    (cause,) = report.cells[""].causes
    assert "is larger by 1 in the candidate where mul takes it" in cause.summary
