"""The bar that is computed from a Cell's own computation: no order of a sum fails, and half precision still does."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge.parity import compare
from cellbridge.parity.judging.noise import Noise
from cellbridge.parity.report.report import Report


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that bounds were computed: whether any was."""
    outcomes: list[bool] = []
    compute = Noise.compute_bounds

    def observed(noise: Noise, paths: Iterable[str]) -> bool:
        outcomes.append(compute(noise, paths))
        return outcomes[-1]

    monkeypatch.setattr(Noise, "compute_bounds", observed)
    return outcomes


class Network(nn.Module):
    """A Cell between others."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, *tensors: Tensor) -> Any:
        return self.cell(*(x * 1 for x in tensors)) * 2


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class OneAfterAnother(nn.Module):
    """The mean as a loop adds it up."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x[:, 0])
        for term in x.unbind(1):
            total = total + term
        return total / x.shape[1]


def _terms() -> Tensor:
    """Terms whose partial sums grow far larger than their mean."""
    return torch.linspace(-1, 1, 2000) + 0.01 * torch.randn(3, 2000, generator=torch.Generator().manual_seed(0))


def _less_precise(report: Report) -> set[tuple[str, str, str]]:
    return {
        (path, c.feeding, c.kind)
        for path, cell in report.cells.items()
        for c in cell.comparisons
        if (c.check, c.status) == ("rounding", "fail")
    }


@pytest.mark.slow
def test_another_order_of_a_sum_is_no_failure_in_the_cell_or_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Network(Mean()), Network(OneAfterAnother()), (_terms(),)
    report = compare(*pair)
    assert report.ok
    beyond = [c for cell in report.cells.values() for c in cell.comparisons if c.check == "rounding" and c.ratio > 10]
    assert {c.feeding for c in beyond} == {"isolated", "end to end"}
    assert all(c.ratio <= c.allowed and c.error <= c.bar for c in beyond)
    monkeypatch.setattr(Noise, "compute_bounds", lambda *_: False)
    assert _less_precise(compare(*pair)) == {("cell", "isolated", "output"), ("", "end to end", "output")}


def test_bounds_are_computed_only_where_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(Noise, "compute_bounds", lambda _, paths: asked.append(list(paths)))
    assert compare(Network(Mean()), Network(Mean()), (_terms(),)).ok
    assert not asked
    compare(Network(Mean()), Network(OneAfterAnother()), (_terms(),))
    assert asked[0] == ["cell"]


def test_a_reference_that_is_no_program_is_judged_by_its_noise_alone(computed: list[bool]) -> None:
    class Untraceable(Mean):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if float(x.detach().abs().sum()) > 0 else x[:, 0]

    report = compare(Network(Untraceable()), Network(OneAfterAnother()), (_terms(),))
    assert computed == [False]
    assert ("cell", "isolated", "output") in _less_precise(report)


class Faulty(nn.Module):
    """A Cell that rounds to `low` in its middle, in float32 alone: its meaning in float64 is right."""

    low: torch.dtype | None = None

    def rounded(self, x: Tensor) -> Tensor:
        if self.low is None or x.dtype == torch.float64:
            return x
        return x + (x.detach().to(self.low).to(x.dtype) - x.detach())


class FaultyMean(Faulty):
    def forward(self, x: Tensor) -> Tensor:
        return self.rounded(x).mean(1)


class Squares(Faulty):
    def forward(self, x: Tensor) -> Tensor:
        return self.rounded(x * x).sum(1)


class Product(Faulty):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 2000, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(self.rounded(x), self.weight)


class Normalization(Faulty):
    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(1, keepdim=True)
        return centered * self.rounded(torch.rsqrt(centered.square().mean(1, keepdim=True) + 1e-5))


class Attention(Faulty):
    def forward(self, x: Tensor) -> Tensor:
        keys = x.reshape(-1, 8)
        return torch.softmax(self.rounded(keys[:16] @ keys.T), -1) @ keys


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [FaultyMean, Squares, Product, Normalization, Attention])
@pytest.mark.every(9)
def test_half_precision_in_the_middle_of_a_cell_still_fails(
    kind: type[Faulty], low: torch.dtype, computed: list[bool]
) -> None:
    right = kind()
    wrong = copy.deepcopy(right)
    wrong.low = low
    report = compare(
        Network(right), Network(wrong), (torch.randn(3, 2000, generator=torch.Generator().manual_seed(0)),)
    )
    assert report.failing == ["cell"]
    assert {c.check for c in report.cells["cell"].failures} == {"rounding"}
    assert computed == [True]


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1)


class ApproximateExponential(nn.Module):
    """A kernel whose exponential is off by 2e-5 in float32, as one with a short polynomial is."""

    def forward(self, x: Tensor) -> Tensor:
        powers = torch.exp(x - x.detach().amax(-1, keepdim=True))
        if x.element_size() == 4:  # a float64 run reports the working dtype
            powers = powers * (1 + 2e-5 * torch.sin(1000 * x.detach()))
        return powers / powers.sum(-1, keepdim=True)


def test_an_approximate_exponential_still_fails(computed: list[bool]) -> None:
    report = compare(Network(Softmax()), Network(ApproximateExponential()), (_terms(),))
    assert computed == [True]
    assert ("cell", "isolated", "output") in _less_precise(report)


class SumInHalfPrecision(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            return x.mean(1)
        return x.mean(1) + (x.detach().half().cumsum(1)[:, -1].float() / x.shape[1] - x.detach().mean(1))


def test_a_sum_in_half_precision_still_fails(computed: list[bool]) -> None:
    report = compare(Network(Mean()), Network(SumInHalfPrecision()), (_terms().abs(),))
    assert computed == [True]
    assert ("cell", "isolated", "output") in _less_precise(report)
