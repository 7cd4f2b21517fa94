"""Cells of the same class name that agree and call other operators are noted, with the operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cellbridge import parity

X = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))


class Gated(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(6, 6)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.fc(x).abs())


def notes(reference: Callable[[Tensor], Tensor], candidate: Callable[[Tensor], Tensor]) -> list[str]:
    report = parity.compare(Gated(reference), Gated(candidate), (X,), probe=False)
    assert report.ok, str(report)
    return [note for note in report.notes if "operators" in note]


@pytest.mark.parametrize(
    ("reference", "candidate", "text"),
    [
        (F.relu, F.relu6, "(root) (hardtanh(min_val=0, max_val=6) in the candidate, relu in the reference)"),
        (
            lambda x: x.clamp(-100, 100),
            lambda x: x.clamp(-50, 50),
            "(root) (clamp(min=-50, max=50) in the candidate, clamp(min=-100, max=100) in the reference)",
        ),
        (F.relu, lambda x: x, "(root) (nothing in the candidate, relu in the reference)"),
        (lambda x: x, lambda x: F.elu(x, 0.5), "(root) (elu(alpha=0.5) in the candidate, nothing in the reference)"),
    ],
)
def test_other_operators_that_agree_are_named(
    reference: Callable[[Tensor], Tensor], candidate: Callable[[Tensor], Tensor], text: str
) -> None:
    assert notes(reference, candidate) == [
        f"computed with different operators, and agree on all that was tried: {text}"
    ]


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (F.gelu, F.gelu),
        (lambda x: x.softmax(-1), lambda x: x.softmax(1)),
        (lambda x: x.reshape(2, 12).reshape(4, 6), lambda x: x.mT.contiguous().mT),
    ],
)
def test_the_same_operators_are_not_noted(
    reference: Callable[[Tensor], Tensor], candidate: Callable[[Tensor], Tensor]
) -> None:
    assert notes(reference, candidate) == []


def test_copies_of_a_class_in_two_files_are_compared_by_their_operators() -> None:
    def copy(function: Callable[[Tensor], Tensor]) -> nn.Module:
        class Copy(Gated):
            pass

        return Copy(function)

    notes_of_same, notes_of_other = (
        parity.compare(copy(F.relu), copy(f), (X,), probe=False).notes for f in (F.relu, F.relu6)
    )
    assert notes_of_same == []
    assert len(notes_of_other) == 1
    assert "hardtanh(min_val=0, max_val=6) in the candidate" in notes_of_other[0]


def test_what_fails_is_not_noted() -> None:
    report = parity.compare(Gated(F.relu), Gated(F.gelu), (X,), probe=False)
    assert not any("operators" in note for note in report.notes)
