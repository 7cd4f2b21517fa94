"""Masks that hide what they should show, in the forms in which people apply them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.causes.catalogue.numbers import likely_numbers

pytestmark = pytest.mark.causes

WIDTH, HEADS, CALLS = 8, 2, 3


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            layer(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.dense(y.transpose(1, 2).reshape(x.shape))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.attention, self.head = nn.Embedding(11, WIDTH), Attention(), nn.Linear(WIDTH, 3)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words(ids)
        shown = mask.bool()[:, None, None].expand(-1, -1, ids.shape[1], -1)
        for _ in range(CALLS):
            x = x + self.attention(x, shown)
        return self.head(x)  # type: ignore[no-any-return]


def hidden(form: str, scores: Tensor, mask: Tensor, *, is_right: bool) -> Tensor:
    """Return the scores of a mask with 1 for words and 0 for padding, which somebody takes the other way round."""
    wrong = mask[:, None, None] == (0 if is_right else 1)
    if form == "filled":
        return scores.masked_fill(wrong, -1e30)
    return scores + wrong.to(scores.dtype) * (-1e9 if form == "added" else torch.finfo(torch.float32).min)


class Engine(nn.Module):
    """One product for queries, keys and values."""

    def __init__(self, reference: Encoder, form: str, *, is_right: bool) -> None:
        super().__init__()
        layers = reference.attention.query, reference.attention.key, reference.attention.value
        self.table, self.head, self.form, self.is_right = reference.words.weight, reference.head, form, is_right
        self.w = nn.Parameter(torch.cat([layer.weight for layer in layers]).detach())
        self.b = nn.Parameter(torch.cat([layer.bias for layer in layers]).detach())
        self.out = reference.attention.dense

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.table[ids]
        for _ in range(CALLS):
            qkv = F.linear(x, self.w, self.b).view(*ids.shape, 3, HEADS, -1)
            q, k, v = (qkv[:, :, number] for number in range(3))
            scores = torch.einsum("bihd,bjhd->bhij", q, k) / (WIDTH // HEADS) ** 0.5
            shares = hidden(self.form, scores, mask, is_right=self.is_right).softmax(-1)
            x = x + self.out(torch.einsum("bhij,bjhd->bihd", shares, v).flatten(2))
        return self.head(x)  # type: ignore[no-any-return]


def compared(form: str, lengths: tuple[int, int], *, is_right: bool = False) -> parity.Report:
    torch.manual_seed(0)
    reference = Encoder()
    ids = torch.randint(0, 11, (2, 6))
    mask = (torch.arange(6) < torch.tensor(lengths)[:, None]).long()
    return parity.compare(reference, Engine(reference, form, is_right=is_right), (ids, mask), probe=False)


@pytest.mark.parametrize(
    ("form", "lengths"), [("filled", (5, 3)), ("filled", (6, 4)), ("added", (5, 3)), ("lowest", (6, 4))]
)
@pytest.mark.every(2)
def test_a_mask_the_other_way_round_is_named(form: str, lengths: tuple[int, int]) -> None:
    """Also where a text without padding is hidden as a whole."""
    report = compared(form, lengths)
    assert report.failing == ["attention"]
    (cause,) = report.cells["attention"].causes
    assert cause.summary.startswith("the mask is inverted in the candidate: ")
    assert cause.gradients


def test_the_right_mask_holds() -> None:
    assert compared("filled", (6, 4), is_right=True).ok


@pytest.mark.parametrize(("most", "is_known"), [(60.0, True), (math.inf, False)])
def test_a_number_that_any_large_one_replaces_is_no_cause(most: float, is_known: bool) -> None:
    def distance(_: Any, number: float) -> float:
        return 0.5 if 50 <= number <= most else 10.0

    evidence = SimpleNamespace(distance=distance)
    numbers = list(likely_numbers(None, evidence, -1e9, lambda number: number))  # type: ignore[arg-type, return-value]
    assert bool(numbers) is is_known
