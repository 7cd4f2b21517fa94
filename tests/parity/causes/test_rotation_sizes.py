"""Rotary embeddings of another number of features than the reference's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("opaque_candidates")]

SIZE, TURNED = 8, 4
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


def table(features: int, turned: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    rates = base ** (-torch.arange(0, features, 2)[: turned // 2] / features)
    angles = (torch.arange(5)[:, None] * rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    first, rest = x[..., : cosines.shape[-1]], x[..., cosines.shape[-1] :]
    a, b = first.chunk(2, -1)
    first = first * cosines + torch.cat((-b, a), -1) * sines
    return torch.cat((first, rest), -1) if rest.shape[-1] else first


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 2 * SIZE), nn.Linear(8, 2 * SIZE)

    def forward(self, x: Tensor, positions: tuple[Tensor, Tensor]) -> Tensor:
        q, k = (layer(x).unflatten(-1, (2, SIZE)).transpose(1, 2) for layer in (self.query, self.key))
        return (turned(q, *positions) @ turned(k, *positions).mT).softmax(-1)


class Port(Attention):
    """The same with a table of its own."""

    def __init__(self, *how: float) -> None:
        super().__init__()
        self._how = how

    def forward(self, x: Tensor, positions: tuple[Tensor, Tensor]) -> Tensor:
        return super().forward(x, table(*self._how))  # type: ignore[arg-type]


class Network(nn.Module):
    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, table(TURNED, TURNED))  # type: ignore[no-any-return]


def compared(*how: float) -> Report:
    torch.manual_seed(0)
    reference, candidate = Network(Attention()), Network(Port(*how))
    candidate.load_state_dict(reference.state_dict())
    return parity.compare(reference, candidate, (X,), probe=False)


@pytest.mark.parametrize(
    ("turned", "words"),
    [
        (SIZE, "the rotary embedding rotates all 8 features in the candidate, 4 of them in the reference"),
        (TURNED, "the rates of the rotary embedding are those of 8 features in the candidate, of 4 in the reference"),
    ],
)
def test_the_number_of_features_is_named(turned: int, words: str) -> None:
    (cause,) = compared(SIZE, turned).cells["attention"].causes
    assert cause.summary.endswith(words)
    assert cause.error < 1e-7


def test_the_same_number_holds() -> None:
    assert compared(TURNED, TURNED).ok


@pytest.mark.slow
def test_another_base_is_no_other_number() -> None:
    causes = compared(SIZE, SIZE, 500.0).cells["attention"].causes
    assert not any("rotary embedding" in cause.summary for cause in causes)
