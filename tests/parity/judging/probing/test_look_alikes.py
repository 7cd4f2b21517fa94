"""Pairs that agree on the given inputs, and differ near the ends of a range, at ties or for other arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cellbridge import converter, parity
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from tests.parity.judging.probing.look_alikes import (
    GRADIENTS,
    INTEGERS,
    POSITIVE,
    THRESHOLDS,
    TIES,
    VALUES,
    LookAlike,
    Of,
)

TABLE = {**VALUES, **INTEGERS, **THRESHOLDS, **TIES, **GRADIENTS}
QUICK = ("logsumexp that overflows", "power and root", "norm that overflows", "through float32", "through float64")


def sides(pair: LookAlike) -> tuple[nn.Module, nn.Module, nn.Module]:
    return Of(pair.reference).eval(), Of(pair.wrong).eval(), Of(pair.sound).eval()


def shown(report: parity.Report) -> set[str]:
    return {c.probe for cell in report.cells.values() for c in cell.failures}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.every(6)
def test_a_look_alike_is_told_from_the_reference(name: str) -> None:
    pair = TABLE[name]
    reference, wrong, _ = sides(pair)
    assert parity.compare(reference, wrong, pair.inputs, probe=False, diagnose_seconds=0).ok, "the inputs hide it"
    report = parity.compare(reference, wrong, pair.inputs, probe=True, diagnose_seconds=0)
    assert report.failing == [""]
    assert all(re.search(pair.probe, probe) for probe in shown(report)), shown(report)


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.every(6)
def test_another_way_to_compute_the_same_passes(name: str) -> None:
    pair = TABLE[name]
    reference, _, sound = sides(pair)
    report = parity.compare(reference, sound, pair.inputs, probe=True, diagnose_seconds=0)
    assert report.ok, str(report)
    assert len(report.probes) > 5


class Positions(nn.Module):
    """A table of positions, of which a size of 1 is broadcast to the given one unless it is cut."""

    def __init__(self, *, cuts: bool) -> None:
        super().__init__()
        self.table, self.cuts = nn.Parameter(torch.linspace(-1, 1, 10).reshape(5, 2)), cuts

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.table[: x.shape[1]] if self.cuts else self.table)


@pytest.mark.parametrize("cuts", [True, False])
def test_what_is_broadcast_by_accident_at_size_1_is_no_difference(cuts: bool) -> None:
    x = torch.linspace(-2, 2, 30).reshape(3, 5, 2)
    report = parity.compare(Positions(cuts=cuts), Positions(cuts=not cuts), (x,), probe=True, diagnose_seconds=0)
    assert report.ok, str(report)


FILES = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n, pair in TABLE.items() if pair.in_files]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.every(3)
def test_files_are_told_apart_and_sound_ones_pass(name: str, tmp_path: Path) -> None:
    pair = TABLE[name]
    files = []
    for number, module in enumerate(sides(pair)):
        files.append(str(tmp_path / f"{number}.onnx"))
        converter.to_onnx(converter.from_torch(module, pair.inputs), files[-1])
    reference, wrong, sound = files
    assert not compare_onnx(reference, wrong, diagnose_seconds=0).ok
    same = compare_onnx(reference, sound, diagnose_seconds=0)
    assert same.ok, str(same)


class Masked(nn.Module):
    """A sum of seen positions; the mask, a flag, and a number, may be ignored."""

    def __init__(self, *, sees_mask: bool = True, sees_flag: bool = True, sees_number: bool = True) -> None:
        super().__init__()
        self.sees_mask, self.sees_flag, self.sees_number = sees_mask, sees_flag, sees_number

    def forward(self, x: Tensor, mask: Tensor | None = None, scaled: bool = False, temperature: float = 1.0) -> Tensor:
        if mask is not None and self.sees_mask:
            x = x.masked_fill(~mask[..., None], 0.0)
        return x.sum(1) * (0.5 if scaled and self.sees_flag else 1.0) / (temperature if self.sees_number else 1.0)


Y = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
SEEN = torch.tensor([[True, True, True, False, False], [True] * 5])


@pytest.mark.parametrize(
    ("wrong", "args", "probe"),
    [
        (lambda: Masked(sees_mask=False), (Y,), "mask given, bools per position"),
        (lambda: Masked(sees_flag=False), (Y,), "scaled=True"),
        (lambda: Masked(sees_flag=False), (Y, SEEN), "scaled=True"),
        (lambda: AlwaysMasked(), (Y, SEEN), "mask left out"),
        (lambda: Masked(sees_number=False), (Y,), "temperature=2"),
    ],
)
@pytest.mark.every(3)
def test_optional_arguments_are_switched(wrong: Callable[[], nn.Module], args: Any, probe: str) -> None:
    assert parity.compare(Masked(), wrong(), args, probe=False).ok
    report = parity.compare(Masked(), wrong(), args, probe=True, grads=False, diagnose_seconds=0)
    assert shown(report) == {probe}
    assert parity.compare(Masked(), Masked(), args, probe=True).ok


class AlwaysMasked(Masked):
    def forward(self, x: Tensor, mask: Tensor | None = None, scaled: bool = False, temperature: float = 1.0) -> Tensor:
        return super().forward(x, SEEN if mask is None else mask, scaled, temperature)


def _mean_of_all_rows(x: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(x, labels, reduction="none").mean()


def test_labels_that_losses_leave_out_are_tried() -> None:
    args = (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([1, 0, 5, 2]))
    report = parity.compare(Of(F.cross_entropy), Of(_mean_of_all_rows), args, probe=True, diagnose_seconds=0)
    assert shown(report) == {"args[1] with -100"}
    by_hand = Of(lambda x, labels: -x.log_softmax(-1).gather(1, labels[:, None]).mean())
    report = parity.compare(Of(F.cross_entropy), by_hand, args, probe=True)
    assert report.ok, str(report)
    assert any("candidate doesn't run with args[1] with -100" in note for note in report.notes)


def test_what_draws_in_one_mode_alone_is_noted() -> None:
    reference = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()
    candidate = nn.Sequential(nn.Linear(4, 4), nn.Identity()).eval()
    candidate.load_state_dict(reference.state_dict())
    report = parity.compare(reference, candidate, (torch.randn(2, 4),), probe=True)
    assert report.ok, str(report)
    note = "candidate was not compared in train mode: random numbers are drawn in 1 of the reference alone"
    assert report.notes.count(note) == 1


def test_an_argument_that_one_side_alone_has_is_not_switched() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum(1)

    report = parity.compare(Masked(), Plain(), (Y,), probe=True)
    assert report.ok, str(report)


def test_integers_that_become_sizes_stay_as_they_are() -> None:
    class Grows(nn.Module):
        def forward(self, n: Tensor) -> Tensor:
            return torch.arange(int(n.max())).sum() + n

    report = parity.compare(Grows(), Grows(), (torch.tensor([3, 4]),), probe=True)
    assert report.ok, str(report)
    assert report.probes
    assert not any("2^" in probe for probe in report.probes)


def test_what_overflows_on_the_reference_is_not_judged() -> None:
    naive = Of(lambda x: x.exp().sum(-1).log())
    halved = Of(lambda x: (x.exp() / 2).sum(-1).log() + torch.tensor(2).log())
    report = parity.compare(naive, halved, (torch.randn(4, 6),), probe=True)
    assert report.ok, str(report)


NORMALIZED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "layer norm": (
        lambda x: F.layer_norm(x, (6,)),
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
    ),
    "elu": (F.elu, lambda x: torch.where(x > 0, x, x.exp() - 1)),
    "gelu": (F.gelu, lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5))),
    "silu": (F.silu, lambda x: x * x.sigmoid()),
    "mish": (F.mish, lambda x: x * torch.tanh(F.softplus(x))),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x + 1, x - 1),
        lambda x: (x @ (x + 1).mT / x.shape[-1] ** 0.5).softmax(-1) @ (x - 1),
    ),
}


@pytest.mark.parametrize("name", NORMALIZED)
@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.every(6)
def test_products_may_overflow_where_the_network_is_not_proportional_to_its_inputs(name: str, exchanged: bool) -> None:
    reference, candidate = NORMALIZED[name][::-1] if exchanged else NORMALIZED[name]
    if name == "layer norm":
        args = (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)),)
        reference, candidate = (_of_six(reference), _of_six(candidate))
    else:
        args = (torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0)),)
    report = parity.compare(Of(reference), Of(candidate), args, probe=True, grads=False, diagnose_seconds=0)
    assert report.ok, str(report)
    assert any("in float32" in probe for probe in report.probes)


def _of_six(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function of rows of six numbers, and of no others."""

    def of(x: Tensor) -> Tensor:
        if x.shape[-1] != 6:
            raise ValueError("takes six numbers")
        return function(x)

    return of


def test_the_same_probes_are_tried_however_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    from cellbridge.parity.judging.probing import prober

    module, x = nn.Sequential(nn.Linear(6, 6), nn.ReLU()), torch.randn(4, 6)
    first = parity.compare(module, module, (x,), probe=True)
    now = iter(range(10**9))
    monkeypatch.setattr(prober.time, "monotonic", lambda: next(now) * 0.01)
    assert parity.compare(module, module, (x,), probe=True).probes == first.probes


NO_FAULTS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], str]] = {
    "softplus by its formula": (F.logsigmoid, lambda x: -F.softplus(-x), ""),
    "gradient that overflows": (F.silu, lambda x: x / (1 + torch.exp(-x)), "gradients of candidate overflow with"),
    "deviation by hand": (
        lambda x: x.std(-1),
        lambda x: ((x - x.mean(-1, keepdim=True)).square().sum(-1) / (x.shape[-1] - 1)).clamp(min=1e-30).sqrt(),
        "",
    ),
    "infinity times zero": (F.relu, lambda x: x * (x > 0), "candidate differs with minus infinity in"),
    "NaN in a choice": (F.relu, lambda x: torch.where(x > 0, x, 0.0), "candidate differs with NaN in"),
}
"""Pairs of formulas in use that differ only where no number of a network is, with the note on that."""


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", NO_FAULTS)
@pytest.mark.every(6)
def test_formulas_that_differ_only_where_no_network_goes_pass(name: str, inside: bool) -> None:
    reference, candidate, note = NO_FAULTS[name]

    def network(function: Callable[[Tensor], Tensor]) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 6), Of(function)) if inside else Of(function)

    args = (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)),)
    report = parity.compare(network(reference), network(candidate), args, probe=True)
    assert report.ok, str(report)
    if not inside:  # a layer before it mixes infinity with numbers
        assert any(note in text for text in report.notes)


def _root(x: Tensor) -> Tensor:
    return torch.where(x > 0, x.clamp(min=1e-3).sqrt(), 0.0)


WRONG: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], str]] = {
    "gradient of a branch that isn't taken": (
        _root, lambda x: torch.where(x > 1e-3, x.sqrt(), torch.where(x > 0, 1e-3**0.5, 0.0)), "limited to 80"
    ),
    "gradient of the deviation of zeros": (
        lambda x: x.std(-1, unbiased=False),
        lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1).sqrt(),
        "all zero",
    ),
    "lower threshold of softplus": (F.softplus, lambda x: F.softplus(x, threshold=8), ""),
    "NaN left out": (
        lambda x: torch.maximum(x, torch.ones_like(x)), lambda x: torch.fmax(x, torch.ones_like(x)), "NaN in"
    ),
    "bound of ReLU6": (F.relu, F.relu6, "around 200$|0.001 to 1000"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.every(2)
def test_what_differs_where_networks_go_fails(name: str) -> None:
    reference, candidate, probe = WRONG[name]
    assert parity.compare(Of(reference), Of(candidate), (POSITIVE,), probe=False).ok, "the inputs hide it"
    report = parity.compare(Of(reference), Of(candidate), (POSITIVE,), probe=True)
    assert report.failing == [""]
    assert all(re.search(probe, text) for text in shown(report)), shown(report)
    assert report.network_verdict.sentence.startswith("candidate: not the same function"), report.network_verdict


ADJACENCY = (torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) > 0.4).float()


@pytest.mark.every(2)
def test_an_adjacency_is_not_given_other_numbers_than_yes_and_no() -> None:
    """`adj > 0` and `adj.bool()` are the same question of zeros and ones; of weights they aren't."""

    def positive(x: Tensor, edges: Tensor) -> Tensor:
        return torch.where(edges > 0, x, 0.0).sum(-1)

    def given(x: Tensor, edges: Tensor) -> Tensor:
        return x.masked_fill(~edges.bool(), 0.0).sum(-1)

    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(1))
    assert parity.compare(Of(positive), Of(given), (x, ADJACENCY), probe=True).ok
    assert not parity.compare(Of(positive), Of(given), (x, ADJACENCY * 0.5), probe=True).ok
    assert not parity.compare(Of(torch.sqrt), Of(lambda x: x), (ADJACENCY,), probe=True).ok  # the only numbers
