"""Notes on inputs whose elements are all equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.sides.records import INPUT, Key, Records
from cellbridge.parity.sides.reported_cells import weak_input_notes


class Masked(nn.Module):
    """Attention over tokens; with a fault, the mask is ignored."""

    def __init__(self, ignores_mask: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.ignores_mask = nn.Embedding(9, 4), ignores_mask

    def forward(self, tokens: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
        x = self.table(tokens) * scale
        scores = x @ x.mT
        if not self.ignores_mask:
            scores = scores.masked_fill(mask[:, None] == 0, -1e4)
        return scores.softmax(-1) @ x


TOKENS, MASK, SCALE = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 0, 1]]), torch.tensor([0.5, 1.5, 1.0, 2.0])


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda t, m, s: (t, torch.ones_like(m), s), "mask is 1 in every element, which can't show whether it masks"),
        (lambda t, m, s: (t, m.bool() | True, s), "mask is True in every element, which can't show whether it masks"),
        (lambda t, m, s: (torch.full_like(t, 5), m, s), "tokens is 5 in every element, which can't show whether its"),
        (lambda t, m, s: (t, m, torch.zeros(4)), "scale is 0 in every element, which can't show what it is multiplied"),
        (lambda t, m, s: (t, m, torch.full((4,), 0.5)), "scale is 0.5 in every element"),
    ],
)
def test_constant_inputs_are_noted(change: Callable[..., tuple[Tensor, ...]], note: str) -> None:
    report = parity.compare(Masked(), Masked(), change(TOKENS, MASK, SCALE))
    assert report.ok
    assert any(text.startswith(note) for text in report.notes), report.notes
    assert sum("in every element" in text for text in report.notes) == 1
    assert "in every element" in str(report).replace("\n  ", " ")
    assert report.to_dict()["notes"] == report.notes


def test_a_mask_of_ones_hides_that_it_is_ignored_and_says_so() -> None:
    assert not parity.compare(Masked(), Masked(ignores_mask=True), (TOKENS, MASK, SCALE)).ok
    report = parity.compare(Masked(), Masked(ignores_mask=True), (TOKENS, torch.ones_like(MASK), SCALE))
    assert any("mask is 1" in note for note in report.notes)


def test_a_large_whole_number_is_shown_with_all_digits() -> None:
    key = Key("", 0, INPUT, "ids")
    notes = weak_input_notes(Records(values={key: np.full(3, 12345678)}, slots={("", 0, INPUT): ["ids"]}))
    assert notes[0].startswith("ids is 12345678 in every element")


def test_inputs_that_vary_and_single_numbers_are_not_noted() -> None:
    report = parity.compare(Masked(), Masked(), (TOKENS, MASK, SCALE))
    assert not report.notes
    assert not parity.compare(nn.Linear(1, 1), nn.Linear(1, 1), (torch.ones(1, 1),)).notes
