"""An operator that one side has written out, with another setting, is named by the setting instead of by nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cellbridge import parity
from cellbridge.parity.results.cause import Cause

pytestmark = pytest.mark.causes

IMAGE = torch.randn(1, 2, 7, 7, generator=torch.Generator().manual_seed(0))
GRID = torch.rand(1, 4, 4, 2, generator=torch.Generator().manual_seed(1)) * 2.2 - 1.1

Function = Callable[[Tensor], Tensor]


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x)


def causes(reference: Function, candidate: Function) -> list[Cause]:
    report = parity.compare(Applied(reference), Applied(candidate), (IMAGE,), probe=False)
    return [cause for path in report.failing for cause in report.cells[path].causes]


def sampled(**options: Any) -> Function:
    return lambda x: functional.grid_sample(x, GRID, **{"align_corners": False} | options)


def sampled_by_hand(align_corners: bool) -> Function:
    """Return bilinear sampling with zeros outside of the image."""

    def sample(x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        column, row = (
            (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
            for at, size in ((GRID[..., 0], width), (GRID[..., 1], height))
        )
        total = torch.zeros(())
        for across in (0, 1):
            for down in (0, 1):
                i, j = row.floor() + down, column.floor() + across
                weight = (1 - (row - i).abs()) * (1 - (column - j).abs())
                inside = ((i >= 0) & (i < height) & (j >= 0) & (j < width)).to(x.dtype)
                place = (i.clamp(0, height - 1) * width + j.clamp(0, width - 1)).long().flatten(1)
                pixels = (
                    x.flatten(2).gather(2, place[:, None].expand(*x.shape[:2], -1)).view(*x.shape[:2], *i.shape[1:])
                )
                total = total + pixels * (weight * inside)[:, None]
        return total

    return sample


def attended_by_hand(axis: int = -1, diagonal: int = 1, size: int = 7) -> Function:
    """Return causal attention of an image's rows to its rows, written out."""

    def attend(x: Tensor) -> Tensor:
        later = torch.ones(7, 7, dtype=torch.bool).triu(diagonal)
        scores = (2 * x) @ x.mT / size**0.5
        return scores.masked_fill(later, -1e4).softmax(axis) @ (x + 1)

    return attend


WRITTEN: dict[str, tuple[Function, Function, str]] = {
    "corners": (
        sampled(), sampled(align_corners=True),
        "in grid_sample, align_corners is True in the candidate, False in the reference",
    ),
    "corners by hand": (
        sampled(align_corners=True), sampled_by_hand(False),
        "in grid_sample, align_corners is False in the candidate, True in the reference",
    ),
    "padding of a sampled image": (
        sampled(), sampled(padding_mode="border"),
        "in grid_sample, padding_mode is 'border' in the candidate, 'zeros' in the reference",
    ),
    "mode of a sampled image": (
        sampled(), sampled(mode="nearest"),
        "in grid_sample, mode is 'nearest' in the candidate, 'bilinear' in the reference",
    ),
    "quotient": (
        lambda x: torch.div(x, 0.3, rounding_mode="floor"), lambda x: (x / 0.3).trunc(),
        "in div, rounding_mode is 'trunc' in the candidate, 'floor' in the reference",
    ),
    "quick GELU": (
        functional.gelu, lambda x: x * torch.sigmoid(1.702 * x),
        "the GELU is approximated by x * sigmoid(1.702 x) in the candidate",
    ),
    "axis": (
        lambda x: x.softmax(-1), lambda x: x.exp() / x.exp().sum(-2, keepdim=True),
        "axis is 2 in the candidate, 3 in the reference",
    ),
    "correction": (
        lambda x: x.var(-1), lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1),
        "correction is 0 in the candidate, 1 in the reference",
    ),
    "order of a norm": (
        lambda x: functional.normalize(x, dim=-1), lambda x: x / x.abs().sum(-1, keepdim=True),
        "in linalg_vector_norm, ord is 1 in the candidate, 2 in the reference",
    ),
    "axis of an attention": (
        lambda x: functional.scaled_dot_product_attention(2 * x, x, x + 1, is_causal=True), attended_by_hand(axis=-2),
        "in softmax, axis is 2 in the candidate, 3 in the reference",
    ),
    "diagonal of an attention's mask": (
        lambda x: functional.scaled_dot_product_attention(2 * x, x, x + 1, is_causal=True),
        attended_by_hand(diagonal=2),
        "the causal mask is off by one in the candidate: each position sees the one after it",
    ),
    "scale of an attention": (
        lambda x: functional.scaled_dot_product_attention(2 * x, x, x + 1, is_causal=True), attended_by_hand(size=6),
        "the number in div is 2.449489742783178 in the candidate, 2.64575131106459",
    ),
    "function after an attention": (
        lambda x: functional.scaled_dot_product_attention(2 * x, x, x + 1, is_causal=True),
        lambda x: attended_by_hand()(x).relu(),
        "relu is computed in the candidate in addition",
    ),
    "magnitudes": (
        lambda x: (2 * x).square().sum(-1).rsqrt(), lambda x: 0.5 / x.abs().sum(-1).sqrt(),
        "the magnitude is computed in the candidate, the square in the reference",
    ),
    "largest element": (
        lambda x: functional.normalize(x, dim=-1), lambda x: x / x.abs().amax(-1, keepdim=True),
        "in linalg_vector_norm, ord is inf in the candidate, 2 in the reference",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.every(4)
def test_the_setting_is_named(name: str) -> None:
    reference, candidate, words = WRITTEN[name]
    (cause,) = causes(reference, candidate)
    assert cause.summary.startswith(words)


@pytest.mark.parametrize(("name", "proof"), [("quick GELU", "reference's"), ("axis of an attention", "candidate's")])
def test_the_proof_names_the_side_that_was_changed(name: str, proof: str) -> None:
    reference, candidate, _ = WRITTEN[name]
    (cause,) = causes(reference, candidate)
    assert f"the {proof} Cell agrees" in cause.proof
    assert cause.to_dict()["in_candidate"] == (proof == "candidate's")


SOUND: dict[str, tuple[Function, Function]] = {
    "attention": (
        lambda x: functional.scaled_dot_product_attention(2 * x, x, x + 1, is_causal=True), attended_by_hand(),
    ),
    "sampled by hand": (sampled(), sampled_by_hand(False)),
    "corners by hand": (sampled(align_corners=True), sampled_by_hand(True)),
    "quotient": (lambda x: torch.div(x, 0.3, rounding_mode="trunc"), lambda x: (x / 0.3).trunc()),
    "correction": (
        lambda x: x.var(-1, correction=0), lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1),
    ),
    "order of a norm": (
        lambda x: functional.normalize(x, p=1, dim=-1), lambda x: x / x.abs().sum(-1, keepdim=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_an_operator_written_out_is_the_same(name: str) -> None:
    reference, candidate = SOUND[name]
    assert parity.compare(Applied(reference), Applied(candidate), (IMAGE,), probe=False).ok


class ByHand(nn.Module):
    """A norm over samples, with its statistics and parameters in another order of their halves."""

    def __init__(self, norm: nn.BatchNorm1d) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        stored = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        mean, variance, weight, bias = (torch.cat(part.chunk(2)[::-1]) for part in stored)  # type: ignore[union-attr]
        scale = weight / (variance + norm.eps).sqrt()
        return x * scale + (bias - mean * scale)  # type: ignore[no-any-return]


def test_statistics_have_the_order_of_the_parameters() -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6)
    for stored in (*norm.parameters(), *norm.buffers()):
        stored.data = torch.rand(6) + 0.5 if stored.ndim else stored
    reference = nn.Sequential()
    reference.norm = norm
    report = parity.compare(reference.eval(), ByHand(norm).eval(), (torch.randn(3, 6),), probe=False)
    (cause,) = report.cells["norm"].causes
    assert cause.summary.endswith("norm.running_var are read in the order 1, 0 in the candidate")
