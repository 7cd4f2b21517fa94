"""A Cell that rounds values to a dtype with fewer digits is told so, with the line."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime import nn as cells


class Scores(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.linear, self._dtype = nn.Linear(6, 6), dtype

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).to(self._dtype).to(x.dtype).softmax(-1) * x


class ScoresCell(cells.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.linear = cells.Dense(6, 6)

    def construct(self, x: CellTensor) -> CellTensor:
        return self.linear(x).astype("float16").astype("float32").softmax(-1) * x


class Network(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.scores, self.head = Scores(dtype), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.scores(x))
        return y


X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.causes
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.every(2)
def test_a_cast_in_the_middle_of_a_cell_is_named(dtype: torch.dtype) -> None:
    reference, candidate = Network(torch.float32), Network(dtype)
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (X,))
    (cause,) = report.cells["scores"].causes
    name = str(dtype).removeprefix("torch.")
    assert (cause.kind, cause.summary) == ("precision", f"values are rounded to {name} in the candidate")
    assert "self.linear(x).to(self._dtype)" in cause.source
    assert "in float64, the Cell agrees" in " ".join(str(report).split())


@pytest.mark.causes
def test_casts_of_both_sides_are_no_cause() -> None:
    reference, candidate = Network(torch.float16), Network(torch.float16)
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, (X,)).ok


@pytest.mark.causes
def test_of_a_port() -> None:
    causes = parity.compare(Scores(torch.float32), ScoresCell(), (X,)).cells[""].causes
    assert [(cause.kind, cause.candidate_value) for cause in causes] == [("precision", "float16")]
