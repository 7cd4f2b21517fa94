"""A cause is found by giving the reference's module the candidate's attributes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.sides.torch_side import TorchSide

IDS = torch.tensor([[1, 0, 2], [0, 3, 0]])


class Tied(nn.Module):
    """A table that is the matrix of the scores, too, so that its gradient comes from two Cells."""

    def __init__(self, padding_idx: int | None) -> None:
        super().__init__()
        self.table, self.scores = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.table.padding_idx, self.scores.weight = padding_idx, self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.scores(torch.tanh(self.table(ids)))
        return scores


class Distances(nn.Module):
    """Two computations that have nothing in common, behind a flag."""

    def __init__(self, *, both: bool) -> None:
        super().__init__()
        self.both, self.linear = both, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        n = torch.arange(x.shape[0])
        distance = n[None] - n[:, None]
        offset = torch.zeros_like(distance)
        if self.both:
            offset = (distance > 0).long() * 3
            distance = distance.abs()
        else:
            distance = -distance.clamp(max=0)
        bias = torch.where(distance < 2, distance, distance.clamp(max=2)) + offset
        y: Tensor = self.linear(bias.to(x) @ x)
        return y


def _copied(reference: nn.Module, candidate: nn.Module) -> tuple[nn.Module, nn.Module]:
    candidate.load_state_dict(reference.state_dict())
    return reference, candidate


@pytest.mark.causes
def test_a_row_that_is_not_trained_in_a_tied_weight() -> None:
    report = parity.compare(*_copied(Tied(0), Tied(2)), (IDS,))
    assert report.failing == ["table"]
    (cause,) = report.cells["table"].causes
    assert (cause.attribute, cause.reference_value, cause.candidate_value) == ("padding_idx", 0, 2)
    assert cause.gradients
    assert cause.fix == "Embedding(..., padding_idx=0)"


@pytest.mark.causes
def test_a_flag_that_switches_to_another_computation() -> None:
    report = parity.compare(*_copied(Distances(both=False), Distances(both=True)), (torch.randn(5, 4),))
    assert [c.summary for c in report.cells[""].causes] == ["both is True in the candidate, False in the reference"]


@pytest.mark.slow
@pytest.mark.causes
def test_attributes_that_explain_nothing_are_no_causes() -> None:
    reference, candidate = _copied(Distances(both=False), Distances(both=False))
    candidate.note = "another"  # type: ignore[assignment]
    reference.note = "one"  # type: ignore[assignment]
    candidate.forward = lambda x: reference.linear(x.cumsum(0) * x.sin())  # type: ignore[assignment, operator]
    report = parity.compare(reference, candidate, (torch.randn(5, 4),))
    assert not report.ok
    assert all(c.attribute != "note" for cell in report.cells.values() for c in cell.causes)


def test_the_module_has_its_own_attributes_again() -> None:
    module = Tied(0)
    side = TorchSide("torch", module, (IDS,), {})
    with side.with_settings("table", {"padding_idx": None}):
        assert module.table.padding_idx is None
    assert module.table.padding_idx == 0
