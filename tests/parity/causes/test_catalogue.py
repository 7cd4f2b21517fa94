"""Causes in candidates that can't be read as programs: found in the catalogue of mistakes, and proved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.results.cause import Cause
from tests.parity.causes.test_torch_copies import CAUSES, report_on
from tests.parity.causes.test_torch_copies import Network as Blocks

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]


OTHER_WORDS = {"bias": "bias of linear is absent in the candidate"}


# a frozen parameter isn't computed; the others are told apart by the code alone
@pytest.mark.parametrize("name", [name for name in CAUSES if name not in ("frozen", "activation", "number", "sign")])
@pytest.mark.every(12)
def test_the_cause_is_named(name: str) -> None:
    change, path, _, summary = CAUSES[name]
    (cause,) = report_on(change).cells[path].causes
    assert OTHER_WORDS.get(name, summary) in cause.summary
    assert cause.error < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("name", ["activation", "number", "sign"])
@pytest.mark.every(3)
def test_something_that_computes_the_same_is_named(name: str) -> None:
    change, path, kind, _ = CAUSES[name]
    (cause,) = report_on(change).cells[path].causes
    assert cause.kind in (kind, "structure")
    assert cause.error < 1e-11


def the_cause(reference: nn.Module, candidate: nn.Module, *args: torch.Tensor, train: bool = False) -> Cause:
    report = parity.compare(reference, candidate, args, train=train)
    (cause,) = report.cells[report.failing[0]].causes
    return cause


IMAGE = torch.linspace(-2, 2, 2 * 4 * 7 * 7).reshape(2, 4, 7, 7)


class Scaled(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self._number) + x


@pytest.mark.parametrize(
    ("make", "changes", "attribute", "value"),
    [
        (nn.LayerNorm, ({"eps": 1e-5}, {"eps": 1e-3}), "eps", 1e-3),
        (nn.LeakyReLU, ({"negative_slope": 0.01}, {"negative_slope": 0.37}), "negative_slope", 0.37),
        (nn.ELU, ({"alpha": 1.0}, {"alpha": 0.7}), "alpha", 0.7),
        (nn.Softmax, ({"dim": 1}, {"dim": 2}), "axis", 2),
    ],
)
@pytest.mark.every(3)
def test_a_number_is_estimated(
    make: Callable[..., nn.Module], changes: tuple[dict[str, float], ...], attribute: str, value: float
) -> None:
    positional = (7,) if make is nn.LayerNorm else ()
    reference, candidate = (make(*positional, **change) for change in changes)
    for module in (reference, candidate):  # the attribute of a module isn't looked at
        module.__class__ = type(make.__name__, (make,), {})
    cause = the_cause(nn.Sequential(reference), nn.Sequential(candidate), IMAGE)
    assert cause.attribute in (attribute, *changes[0])
    assert cause.candidate_value == value


def test_a_number_in_the_code() -> None:
    cause = the_cause(Scaled(0.5), Scaled(0.3), IMAGE)
    assert "the number in mul is 0.3 in the candidate, 0.5 in the reference" in cause.summary


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (nn.Conv2d(4, 4, 3, padding=0), "padding is ((0, 0), (0, 0)) in the candidate"),
        (nn.Conv2d(4, 4, 3, padding=1, stride=2), "stride is (2, 2) in the candidate"),
        (nn.Conv2d(4, 4, 3, padding=1, dilation=2), "dilation is (2, 2) in the candidate"),
    ],
)
@pytest.mark.every(3)
def test_attributes_that_change_the_shape(candidate: nn.Module, words: str) -> None:
    reference = nn.Conv2d(4, 4, 3, padding=1)
    candidate.load_state_dict(reference.state_dict())
    cause = the_cause(nn.Sequential(reference), nn.Sequential(candidate), IMAGE)
    assert words in cause.summary or cause.attribute in words


def test_momentum() -> None:
    cause = the_cause(nn.BatchNorm2d(4), nn.BatchNorm2d(4, momentum=0.3), IMAGE, train=True)
    assert (cause.attribute, cause.candidate_value) == ("momentum", 0.3)


class Masked(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.eye(7, dtype=torch.bool)
        return torch.softmax(x.masked_fill(mask, -torch.inf) * self._number, -1)


def test_infinite_numbers_in_the_code_are_left_alone() -> None:
    cause = the_cause(Masked(1.0), Masked(0.5), IMAGE)
    assert "0.5" in cause.summary


def test_what_no_entry_explains_has_no_cause() -> None:
    class Other(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(3 * x) * torch.cos(x * x) + 0.1 * x.flip(0)

    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) + x

    report = parity.compare(Plain(), Other(), (IMAGE,), diagnose_seconds=3)
    assert report.failing == [""]
    assert not report.cells[""].causes


def test_two_cells_are_explained_apart() -> None:
    def both(network: Blocks) -> None:
        network.first.norm.eps = 1e-5
        network.second.act = nn.GELU("tanh")

    report = report_on(both)
    assert [cell.causes[0].attribute for cell in report.cells.values() if cell.causes] == ["eps", "approximate"]
