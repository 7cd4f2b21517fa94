"""Infinities and NaN: infinities of masks are compared, and values that hide differences are reported."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.results.comparison import NOT_KNOWN
from cellbridge.runtime.errors import UsageError


class Masked(nn.Module):
    """Scores that no softmax follows, x [batch, 5, 4], with `value` above the diagonal."""

    def __init__(self, value: float = float("-inf"), diagonal: int = 1, scale: float = 1.0) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)
        self.value, self.diagonal, self.scale = value, diagonal, scale

    def forward(self, x: Tensor) -> Tensor:
        scores = self.scale * self.query(x) @ self.key(x).mT
        return scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(self.diagonal), self.value)


X = (torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)),)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.every(2)
def test_infinities_that_a_mask_writes_are_equal(dtype: str) -> None:
    report = parity.check(Masked(), X, dtype=dtype, round_trip=True)
    assert report.ok
    assert "infinite in the reference, where sign and place are compared: 20 of 50 elements of result" in report.notes


@pytest.mark.parametrize(
    "fault",
    [{"value": float("inf")}, {"value": -1e9}, {"value": float("nan")}, {"diagonal": 2}, {"scale": 1.0001}],
)
@pytest.mark.every(3)
def test_others_are_a_fault(fault: Any) -> None:
    reference, candidate = Masked(), Masked(**fault)
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, X).failing == [""]


def test_large_numbers_are_no_infinities() -> None:
    reference, candidate = Masked(-1e9), Masked()
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, X).failing == [""]


class Scaled(nn.Module):
    """`function` of what a linear layer returns."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x))


@pytest.mark.parametrize(
    "function",
    [lambda x: 1 / (x - x[:1]), lambda x: (1e5 * x.abs()).exp(), lambda x: torch.inf + 0 * x],
)
def test_a_pole_or_an_overflow_is_no_mask(function: Any) -> None:
    with pytest.raises(UsageError, match="contain infinity"):
        parity.compare(Scaled(function), Scaled(function), (X[0][0],))


def test_what_overflows_in_the_working_dtype_alone_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        return 1e5 * x.masked_fill(torch.eye(4, dtype=torch.bool).repeat(2, 1)[:5], float("-inf"))

    module = Scaled(function)
    assert parity.compare(module, copy.deepcopy(module), (X[0][0],)).ok
    with pytest.raises(UsageError, match="outputs in float16 contain infinity"):
        parity.compare(module, copy.deepcopy(module), (X[0][0],), dtype="float16")


def test_gradients_that_are_nan_are_not_compared_and_told() -> None:
    module = Scaled(lambda x: (0 * x).square().sum(-1).sqrt())
    report = parity.check(module, (X[0][0],))
    assert not report.ok
    assert {report.cells[path].status for path in ("", "linear")} == {NOT_KNOWN}
    assert any(note.startswith("NaN in the reference's gradients") for note in report.notes)
    assert not report.failed
    assert "? not known" in str(report)
    assert parity.check(module, (X[0][0],), grads=False).ok


def test_nan_in_some_gradients_is_told() -> None:
    padding = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
    module = Scaled(lambda x: (padding[:, None] * x).norm(dim=-1, keepdim=True).square().sqrt() + x)
    report = parity.check(module, (X[0][0],))
    assert "NaN in the reference's gradients, which hides any difference: 4 of 20 elements of x, " in report.notes[0]
