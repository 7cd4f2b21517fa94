"""Tables of relative positions are named by their settings, and a mask that isn't applied by its input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.causes.relative_positions import Buckets, in_words, settings_of

pytestmark = pytest.mark.causes


def buckets(distances: Tensor, bidirectional: bool, count: int, farthest: int) -> Tensor:
    """T5's, as in transformers."""
    first = torch.zeros_like(distances)
    if bidirectional:
        count //= 2
        first = first + (distances > 0).long() * count
        distances = distances.abs()
    else:
        distances = -torch.min(distances, torch.zeros_like(distances))
    exact = count // 2
    large = exact + (torch.log(distances.float() / exact) / math.log(farthest / exact) * (count - exact)).long()
    large = torch.min(large, torch.full_like(large, count - 1))
    return first + torch.where(distances < exact, distances, large)


class Biased(nn.Module):
    """Scores with a bias by relative positions."""

    def __init__(self, *settings: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bias, self._settings = nn.Embedding(8, 2), settings

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[-1])
        table = buckets(places[None] - places[:, None], *self._settings)
        return (x + self.bias(table).permute(2, 0, 1)).softmax(-1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((False, 8, 12), "bidirectional is False in the candidate, True in the reference"),
        ((True, 6, 12), "num_buckets is 6 in the candidate, 8 in the reference"),
    ],
)
@pytest.mark.every(2)
def test_relative_positions_are_named_by_their_settings(settings: tuple[Any, ...], words: str) -> None:
    report = parity.compare(Biased(True, 8, 12), Biased(*settings), (torch.randn(1, 2, 14, 14),), probe=False)
    (cause,) = report.cells[""].causes
    assert cause.summary == f"in the value passed to bias, {words}"
    assert "torch.where(distances < exact, distances, large)" in cause.source


def test_equal_positions_in_other_words_are_sound() -> None:
    x = torch.randn(1, 2, 5, 5)
    assert parity.compare(Biased(True, 8, 12), Biased(True, 8, 16), (x,), probe=False).ok  # none is that far away


@pytest.mark.parametrize("given", [Buckets(True, 32, 128), Buckets(False, 16, 64), Buckets(True, 8, 20)])
def test_settings_are_read_from_a_table(given: Buckets) -> None:
    places = torch.arange(150)
    distances = places[None] - places[:, None]
    table = buckets(distances, given.bidirectional, given.num_buckets, given.max_distance).numpy()
    assert np.array_equal(given.of(distances.numpy()), table)
    assert given in settings_of(table)
    table[3, 4] += 1
    assert settings_of(table) == []
    assert in_words(table, table) == ""


class Balance(nn.Module):
    """The loss that balances the load of experts, of the tokens that aren't padding."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self._masked = masked

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        weights = logits.softmax(-1)
        chosen = nn.functional.one_hot(weights.topk(2, -1).indices, 4).float()
        if not self._masked:
            share, probability = chosen.mean((0, 1)), weights.mean((0, 1))
        else:
            keep = mask[:, :, None].to(weights.dtype)
            share = (chosen * keep[..., None]).sum((0, 1)) / keep.sum()
            probability = (weights * keep).sum((0, 1)) / keep.sum()
        return (share * probability).sum() * 4


def mask() -> Tensor:
    attention_mask = torch.ones(2, 6, dtype=torch.long)
    attention_mask[1, 4:] = 0
    return attention_mask


def test_a_mask_that_is_not_applied_is_named() -> None:
    report = parity.compare(Balance(True), Balance(False), (torch.randn(2, 6, 4), mask()), probe=False)
    (cause,) = report.cells[""].causes
    assert cause.summary.startswith("the mask isn't applied in the candidate: the input mask counts as all 1")
    assert cause.fix == "apply the mask"


def test_a_mask_of_ones_changes_nothing() -> None:
    ones = torch.ones(2, 6, dtype=torch.long)
    assert parity.compare(Balance(True), Balance(False), (torch.randn(2, 6, 4), ones), probe=False).ok
