"""A weight that several Cells use: the Cell that uses it wrongly is named, and not the one that holds it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cellbridge import parity

IDS = torch.arange(6).reshape(2, 3) % 5


class Tied(nn.Module):
    """Its head is the weight of its embedding, used by a function."""

    def __init__(self, scale: float = 1.0, *, detached: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.body, self.norm = nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.scale, self.detached = scale, detached

    def forward(self, ids: Tensor) -> Tensor:
        weight = self.words.weight.detach() if self.detached else self.words.weight
        x = self.norm(self.body(self.words(ids)))
        return nn.functional.linear(x if self.scale == 1 else x * self.scale, weight)


class WithHead(nn.Module):
    """Its head is a Cell that holds the weight of its embedding, or another with the same values."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.words.weight if tied else nn.Parameter(self.words.weight.detach().clone())

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids).tanh())


def failing(reference: nn.Module, candidate: nn.Module) -> Any:
    return parity.compare(reference, candidate, (IDS,)).failing


def test_a_wrong_use_in_the_root_is_not_the_embeddings_fault() -> None:
    assert failing(Tied(), Tied(1.001)) == [""]
    assert failing(Tied(), Tied(detached=True)) == [""]
    assert failing(Tied(), Tied()) == []


def test_a_wrong_embedding_is_not_the_roots_fault() -> None:
    candidate = Tied()
    candidate.words.scale_grad_by_freq = True
    assert failing(Tied(), candidate) == ["words"]


def test_a_head_that_is_not_tied_is_named() -> None:
    assert failing(WithHead(tied=True), WithHead(tied=False)) == ["head"]
    assert failing(WithHead(tied=True), WithHead(tied=True)) == []


def test_a_head_that_is_tied_although_the_reference_has_two_weights_is_named() -> None:
    assert failing(WithHead(tied=False), WithHead(tied=True)) == ["head"]
