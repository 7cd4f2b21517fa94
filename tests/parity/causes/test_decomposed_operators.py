"""Operators that torch decomposes, and functions that people write out: named with the setting that differs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.results.cause import Cause

pytestmark = pytest.mark.causes

Function = Callable[[Tensor], Tensor]


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def causes(reference: Function, candidate: Function, x: Tensor) -> list[Cause]:
    report = parity.compare(Applied(reference), Applied(candidate), (x,), probe=False)
    assert report.failing == [""]
    return report.cells[""].causes


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def unfolded(**options: Any) -> Function:
    return lambda x: F.unfold(x, 3, **options)


def turned(corners: bool, sampled: bool | None = None) -> Function:
    def function(x: Tensor) -> Tensor:
        grid = F.affine_grid(x, [2, 1, 5, 4], align_corners=corners)
        return grid if sampled is None else F.grid_sample(x[:, None], grid, align_corners=sampled)

    return function


def sampled(align_corners: bool) -> Function:
    return lambda x: F.grid_sample(x, torch.tanh(x[:, :2].permute(0, 2, 3, 1)), align_corners=align_corners)


def sampled_by_hand(x: Tensor) -> Tensor:
    (batch, channels, height, width), grid = x.shape, torch.tanh(x[:, :2].permute(0, 2, 3, 1))
    columns, rows = ((grid[..., 0] + 1) * width - 1) / 2, ((grid[..., 1] + 1) * height - 1) / 2
    total = torch.zeros_like(x)
    for right in (0, 1):
        for below in (0, 1):
            column, row = columns.floor() + right, rows.floor() + below
            weight = (1 - (columns - column).abs()) * (1 - (rows - row).abs())
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            at = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long().view(batch, 1, -1)
            value = x.flatten(2).gather(2, at.expand(-1, channels, -1)).view_as(x)
            total = total + value * (weight * inside)[:, None]
    return total


IMAGE = numbers(2, 3, 5, 4)
OPERATORS: dict[str, tuple[Function, Function, Tensor, list[str]]] = {
    "padding": (unfolded(padding=1), unfolded(padding=2), IMAGE, [
        "in unfold, padding is (2, 2) in the candidate, (1, 1) in the reference"]),
    "stride": (unfolded(padding=1), unfolded(padding=1, stride=2), IMAGE, [
        "in unfold, stride is (2, 2) in the candidate, (1, 1) in the reference"]),
    "dilation": (unfolded(padding=2), unfolded(padding=2, dilation=2), IMAGE, [
        "in unfold, dilation is (2, 2) in the candidate, (1, 1) in the reference"]),
    "fold": (lambda x: F.fold(x, (5, 4), 3, padding=1), lambda x: F.fold(x, (5, 4), 3, padding=2, dilation=2),
             numbers(2, 9, 20), ["in fold, dilation is (2, 2) in the candidate"]),
    "grid": (turned(False), turned(True), numbers(2, 2, 3), [
        "in affine_grid, align_corners is True in the candidate, False in the reference"]),
    "grid and sample": (turned(False, False), turned(True, True), numbers(2, 2, 3), [
        "in affine_grid, align_corners is True in the candidate", "in grid_sample, align_corners is True in the"]),
    "reference by hand": (sampled_by_hand, sampled(True), IMAGE, [
        "in grid_sample, align_corners is True in the candidate, False in the reference"]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.every(2)
def test_settings_of_operators_are_named(name: str) -> None:
    reference, candidate, x, expected = OPERATORS[name]
    reported_causes = causes(reference, candidate, x)
    assert [cause.together for cause in reported_causes] == [len(expected)] * len(expected), reported_causes
    for cause, words in zip(reported_causes, expected, strict=True):
        assert words in cause.summary
        assert cause.fix.startswith("use ")


def keras(x: Tensor) -> Tensor:
    return (0.2 * x + 0.5).clamp(0, 1)


def shifted(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[:, :1]), x.cumsum(1)[:, :-1]], 1)


SLOPE = "the hard sigmoid's slope is {} in the candidate, {} in the reference"
FORMULAS: dict[str, tuple[Function, Function, str]] = {
    "hard sigmoid": (F.hardsigmoid, keras, SLOPE.format("0.2", "1/6")),
    "the other way round": (keras, F.hardsigmoid, SLOPE.format("1/6", "0.2")),
    "by relu6": (lambda x: F.relu6(x + 3) / 6, keras, SLOPE.format("0.2", "1/6")),
    "hard swish": (F.hardswish, lambda x: x * keras(x), "the hard swish's slope is 0.2 in the candidate"),
    "less itself": (lambda x: x.cumsum(1), lambda x: x.cumsum(1) - x, "the sum is exclusive in the candidate"),
    "shifted": (lambda x: x.cumsum(1), shifted, "the sum is exclusive in the candidate, inclusive in the reference"),
    "exclusive reference": (shifted, lambda x: x.cumsum(1), "the sum is inclusive in the candidate, exclusive in the"),
    "from the end": (lambda x: x.cumsum(1), lambda x: x.flip(1).cumsum(1).flip(1), "the sum is taken from the end in"),
    "GELU": (lambda x: 0.5 * x * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))), F.gelu,
             "in gelu, approximate is 'none' in the candidate, 'tanh' in the reference"),
    "product": (lambda x: x.cumprod(1), lambda x: F.pad(x.cumprod(1), (1, 0), value=1.0)[:, :-1],
                "the product is exclusive in the candidate"),
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_named(name: str) -> None:
    reference, candidate, words = FORMULAS[name]
    (cause,) = causes(reference, candidate, 4 * numbers(3, 6))
    assert words in cause.summary
    assert __file__ in cause.source


def test_the_same_written_out_holds() -> None:
    pairs: list[tuple[Function, Function, Tensor]] = [
        (F.hardsigmoid, lambda x: F.relu6(x + 3) / 6, 4 * numbers(3, 6)),
        (shifted, lambda x: x.cumsum(1) - x, numbers(3, 6)),
        (sampled_by_hand, sampled(False), IMAGE),
    ]
    for reference, candidate, x in pairs:
        assert parity.compare(Applied(reference), Applied(candidate), (x,), probe=False).ok
