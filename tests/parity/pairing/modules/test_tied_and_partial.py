"""Weights tied on one side and copied on the other, and tables of which one side has a part, with `weights=`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.structure import OTHER_PARTS
from cellbridge.runtime import Parameter, ops
from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime import nn as cells
from cellbridge.runtime.errors import UsageError

IDS = torch.tensor([[1, 2, 3, 6]])
PAIRS = {"words": "embed", "out": "head"}


class Reference(nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight if tied else nn.Parameter(self.embed.weight.detach().clone())

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids).tanh())


class Candidate(nn.Module):
    def __init__(self, reference: Reference, *, tied: bool, scale: float = 1.0) -> None:
        super().__init__()
        self.words, self.out, self.scale = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False), scale
        with torch.no_grad():
            self.words.weight.copy_(reference.embed.weight)
            self.out.weight.copy_(reference.head.weight)
        if tied:
            self.out.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.words(ids).tanh() * self.scale)


class Port(cells.Cell):
    def __init__(self, *, tied: bool, scale: float = 1.0) -> None:
        super().__init__()
        self.words, self.out, self.scale = cells.Embedding(7, 4), cells.Dense(4, 7, has_bias=False), scale
        if tied:
            self.out.weight = self.words.embedding_table

    def construct(self, ids: Any) -> Any:
        return self.out(ops.tanh(self.words(ids)) * self.scale)


KINDS = {
    "torch": (lambda reference, **how: Candidate(reference, **how), "words.weight"),
    "Cell": (lambda reference, **how: Port(**how), "words.embedding_table"),
}
HEADS = {"each by its name": "head.weight", "both of one": "embed.weight", "the embedding alone": None}


def given(kind: str, head: str) -> dict[str, Any]:
    return {KINDS[kind][1]: "embed.weight"} | ({"out.weight": HEADS[head]} if HEADS[head] else {})


def parts(report: Any) -> list[str]:
    return [difference.text for difference in report.structure if difference.kind == OTHER_PARTS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("reference_tied", "candidate_tied"), list(product((True, False), repeat=2)))
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.every(6)
def test_a_head_tied_on_either_side(kind: str, reference_tied: bool, candidate_tied: bool, head: str) -> None:
    """A sound network holds, and says where the sides are tied differently; a faulty one fails."""
    reference = Reference(tied=reference_tied)
    make, weights = KINDS[kind][0], given(kind, head)
    if head == "both of one" and not reference_tied:
        return  # says that the candidate's head is another parameter's
    report = parity.compare(reference, make(reference, tied=candidate_tied), (IDS,), cells=PAIRS, weights=weights)
    report.raise_if_failed()
    assert len(parts(report)) == (reference_tied != candidate_tied)
    assert "further training makes them differ" in "".join(parts(report)) or reference_tied == candidate_tied
    faulty = make(reference, tied=candidate_tied, scale=1.01)
    assert parity.compare(reference, faulty, (IDS,), cells=PAIRS, weights=weights, diagnose_seconds=0).failing


def test_a_copy_with_other_values_or_frozen_fails() -> None:
    reference = Reference(tied=True)
    for change in ("values", "frozen"):
        candidate = Candidate(reference, tied=False)
        with torch.no_grad():
            candidate.out.weight[2] += change == "values"
        candidate.out.weight.requires_grad_(change != "frozen")
        report = parity.compare(reference, candidate, (IDS,), cells=PAIRS, weights=given("torch", "both of one"))
        reasons = [c.reason for cell in report.cells.values() for c in cell.failures if c.kind == "parameter"]
        assert ("frozen" if change == "frozen" else "values differ") in reasons[0]


def test_different_weights_are_not_those_of_a_tied_candidate() -> None:
    reference = Reference(tied=False)
    with torch.no_grad():
        reference.head.weight += 1
    for kind in KINDS:
        candidate = KINDS[kind][0](reference, tied=True)
        weights = given(kind, "each by its name")
        assert not parity.compare(reference, candidate, (IDS,), cells=PAIRS, weights=weights, diagnose_seconds=0).ok


class Matrix(cells.Cell):
    """Its head is a matrix of its own, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.matrix = cells.Embedding(7, 4), Parameter(CellTensor(np.zeros((4, 7), np.float32)))

    def construct(self, ids: Any) -> Any:
        return ops.matmul(ops.tanh(self.words(ids)), self.matrix)


def test_a_copy_in_another_layout_and_cell() -> None:
    weights = {"words.embedding_table": "embed.weight", "matrix": ("embed.weight", "transpose")}
    report = parity.compare(Reference(tied=True), Matrix(), (IDS,), cells={"words": "embed"}, weights=weights)
    report.raise_if_failed()
    assert len(parts(report)) == 1


class Tables(nn.Module):
    def __init__(self, words: int = 7, length: int = 10) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.positions = nn.Embedding(words, 4), nn.Embedding(length, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.words(ids) * self.positions.weight[: ids.shape[1]]


class TablesPort(cells.Cell):
    def __init__(self, words: int, length: int) -> None:
        super().__init__()
        self.words, self.positions = cells.Embedding(words, 4), cells.Embedding(length, 4)

    def construct(self, ids: Any) -> Any:
        return self.words(ids) * self.positions.embedding_table[: ids.shape[1]]


def of_torch(reference: Tables, words: int, length: int) -> Tables:
    candidate = Tables(words, length)
    with torch.no_grad():
        candidate.words.weight[:7] = reference.words.weight
        candidate.positions.weight.copy_(reference.positions.weight[:length])
    return candidate


TABLES = {
    "torch": (of_torch, "weight"),
    "Cell": (lambda reference, words, length: TablesPort(words, length), "embedding_table"),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.every(2)
def test_a_part_of_a_table_and_a_padded_one(kind: str) -> None:
    reference, (make, leaf) = Tables(), TABLES[kind]
    weights = {
        f"positions.{leaf}": ("positions.weight", lambda table: table[:6]),
        f"words.{leaf}": ("words.weight", lambda table: np.pad(table, [(0, 2), (0, 0)])),
    }
    report = parity.compare(reference, make(reference, 9, 6), (IDS,), weights=weights)
    report.raise_if_failed()
    assert parts(report) == [
        f"positions.weight of the reference has 10 rows: rows 0 to 5 are in the candidate (positions.{leaf}), "
        "rows 6 to 9 aren't",
        f"words.{leaf} of the candidate has 9 rows: rows 0 to 6 are the reference's (words.weight), "
        "rows 7 to 8 are its own",
    ]
    shifted = weights | {f"positions.{leaf}": ("positions.weight", lambda table: table[1:7])}
    assert not parity.compare(reference, make(reference, 9, 6), (IDS,), weights=shifted, diagnose_seconds=0).ok


@pytest.mark.parametrize(
    ("words", "length", "says"),
    [
        (
            7,
            6,
            "it has rows 0 to 5 of the reference's 10, and 4 are missing: if that is meant, give the function `lambda",
        ),
        (9, 10, "it has the reference's 7 rows as 0 to 6, and 2 more"),
    ],
)
def test_without_a_map_the_rows_are_named(words: int, length: int, says: str) -> None:
    reference = Tables()
    report = parity.compare(reference, of_torch(reference, words, length), (IDS,), diagnose_seconds=0)
    reasons = [c.reason for cell in report.cells.values() for c in cell.failures if c.kind == "parameter"]
    assert says in "".join(reasons)
    names = {"words.weight": "words.weight"} if words > 7 else {"positions.weight": "positions.weight"}
    with pytest.raises(UsageError, match=r"lambda table: (table\[:6\]|numpy.pad\(table, \[\(0, 2\), \(0, 0\)\]\))"):
        parity.compare(reference, of_torch(reference, words, length), (IDS,), weights=names)
