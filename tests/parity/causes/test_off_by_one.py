"""Positions that a port counts from one place too early or too late: a table, the indices of a table, and a slice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]

Step = Callable[["Network", Tensor], Tensor]
X = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
FAR = torch.arange(5)[:, None] - torch.arange(5)


class Network(nn.Module):
    """Scores of words for words, and a step that adds those of positions."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.table = nn.Linear(6, 6), nn.Linear(6, 6), nn.Parameter(torch.randn(5, 6))
        self._step = step

    def forward(self, x: Tensor) -> Tensor:
        return self._step(self, x)


def by_distance(number: int, scale: float = 1.0) -> Step:
    """Scores by the distance of two words, which are gathered."""

    def step(net: Network, x: Tensor) -> Tensor:
        scores = net.first(x) @ net.table.mT * scale
        places = (FAR - number).clamp(min=0).expand(2, 5, 5)
        return scores.gather(2, places).tril().softmax(-1) @ net.second(x)

    return step


def by_shifting(net: Network, x: Tensor) -> Tensor:
    """The same scores, by padding as in Transformer-XL: those of no distance are the last ones."""
    scores = net.first(x) @ net.table.flip(0).mT
    padded = torch.cat((torch.zeros(2, 5, 1), scores), 2).view(2, 6, 5)
    return padded[:, 1:].tril().softmax(-1) @ net.second(x)


def chosen(number: int) -> Step:
    return lambda net, x: net.first(net.table[(x.argmax(-1) - number).clamp(0, 4)]).cumsum(1)


def sliced(start: int) -> Step:
    return lambda net, x: net.second(net.first(x).tanh()[:, start : start + 3].cumsum(1))


def compared(reference: Step, candidate: Step) -> Report:
    return parity.compare(Network(reference), Network(candidate), (X,), probe=False)


MISTAKES: dict[str, tuple[Step, Step, str]] = {
    "indices": (chosen(1), chosen(2), "the indices of take are off by one in the candidate: smaller by 1, within"),
    "a table": (
        by_shifting,
        by_distance(1),
        "table is off by one in the candidate: it is read one place earlier along axis 0, with its first",
    ),
    "a slice": (sliced(0), sliced(1), "are off by one in the candidate: taken one place later along axis 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_place_that_is_off_by_one_is_told(name: str) -> None:
    reference, candidate, words = MISTAKES[name]
    (cause,) = compared(reference, candidate).cells[""].causes
    assert words in cause.summary
    assert cause.error < 1e-11


def test_shifting_is_gathering_by_distance() -> None:
    assert compared(by_shifting, by_distance(0)).ok


@pytest.mark.slow
@pytest.mark.parametrize("candidate", [by_distance(1, 0.5), sliced(2)])
@pytest.mark.every(2)
def test_another_mistake_is_not_off_by_one(candidate: Step) -> None:
    reference = sliced(0) if candidate(Network(candidate), X).shape[1] == 3 else by_distance(0)
    causes = compared(reference, candidate).cells[""].causes
    assert not any("off by one" in cause.summary for cause in causes)
