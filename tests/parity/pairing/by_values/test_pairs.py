"""What was paired how: each Cell and parameter of a port with other names, fused weights and another division."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import NOT_REACHED, PASS, PASSED_ON, UNPAIRED

WIDTH = 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)
        self.never = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-2, -1)
        return self.dropout(self.out(torch.softmax(scores, -1) @ self.value(x)))


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.attention(x)))


class Fused(nn.Module):
    def __init__(self, reference: Reference, eps: float = 1e-5) -> None:
        super().__init__()
        inner = reference.attention
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        parts = (inner.query, inner.key, inner.value)
        self.qkv.weight.data = torch.cat([part.weight.data for part in parts])
        self.qkv.bias.data = torch.cat([part.bias.data for part in parts])
        self.back = nn.Parameter(inner.out.weight.data.T.contiguous())
        self.shift = nn.Parameter(inner.out.bias.data.clone())
        self.last = nn.LayerNorm(WIDTH, eps=eps)
        self.last.load_state_dict(reference.norm.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        x = torch.softmax(q @ k.transpose(-2, -1), -1) @ v
        return F.gelu(self.last(x @ self.back + self.shift))


@pytest.fixture(scope="module")
def report() -> Report:
    reference = Reference().eval()
    return parity.compare(reference, Fused(reference).eval(), (torch.randn(2, 5, WIDTH),))


def test_each_cell_has_the_cell_that_computes_it_or_is_around_it(report: Report) -> None:
    assert report.ok
    pairs = {pair.module: pair for pair in report.correspondence.cells}
    assert pairs[""].how == "root"
    assert (pairs["norm"].cell, pairs["norm"].cell_class, pairs["norm"].is_part) == ("last", "LayerNorm", False)
    assert (pairs["act"].cell, pairs["act"].cell_class, pairs["act"].is_part) == ("", "Fused", True)
    assert (pairs["attention.query"].cell, pairs["attention.query"].is_part) == ("qkv", True)
    assert {pair.how for path, pair in pairs.items() if path} == {"values"}


def test_parameters_say_what_they_are_made_of(report: Report) -> None:
    sources = {weight.parameter: (weight.source, weight.layout) for weight in report.correspondence.parameters}
    names = [f"attention.{part}.weight" for part in ("query", "key", "value")]
    assert sources["qkv.weight"] == (" and ".join(names), "joined")
    assert sources["back"] == ("attention.out.weight", "transposed")
    assert sources["last.weight"] == ("norm.weight", "")
    assert {weight.how for weight in report.correspondence.parameters} == {"values"}


def test_a_cell_that_the_port_lacks_is_judged_if_both_ends_are_found(report: Report) -> None:
    assert report.cells["act"].status == PASS
    assert report.cells["attention.dropout"].status == PASSED_ON
    assert report.cells["attention.never"].status == NOT_REACHED
    assert UNPAIRED not in {cell.status for cell in report.cells.values()}
    assert "unpaired" not in str(report)
    (case,) = [case for case in report.cases() if case.name == "attention.dropout[candidate]"]
    assert case.outcome == "passed"


def test_a_cell_with_a_missing_end_is_unpaired() -> None:
    class Exponential(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp()

    class Logarithm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(-1).log()

    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer, self.up, self.down = nn.Linear(3, 5), Exponential(), Logarithm()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(self.up(self.layer(x)))

    class Together(nn.Module):
        def __init__(self, reference: Apart) -> None:
            super().__init__()
            self.product = reference.layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.product(x)
            largest = x.amax(-1, keepdim=True)
            return (x - largest).exp().sum(-1).log() + largest.squeeze(-1)

    reference = Apart()
    report = parity.compare(reference, Together(reference), (torch.randn(4, 3),))
    assert report.ok
    assert report.cells["up"].status == report.cells["down"].status == UNPAIRED
    assert "unpaired: it has no counterpart" in str(report)


def test_merged_parameters_name_the_cell_whose_weights_have_them() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.norm = nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4)
            self.norm.running_mean = torch.randn(4)
            nn.init.uniform_(self.norm.weight, 0.5, 1.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.conv(x))

    class Folded(nn.Module):
        def __init__(self, reference: Apart) -> None:
            super().__init__()
            self.product = torch.nn.utils.fuse_conv_bn_eval(reference.conv, reference.norm)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.product(x)

    reference = Apart().eval()
    report = parity.compare(reference, Folded(reference).eval(), (torch.randn(2, 3, 5),))
    assert report.ok
    pairs = {pair.module: (pair.cell, pair.is_part, pair.layout) for pair in report.correspondence.cells}
    assert pairs["conv"] == pairs["norm"] == ("product", True, "merged")
    merged = [weight for weight in report.correspondence.parameters if weight.layout == "merged"]
    assert {weight.source for weight in merged} >= {"conv.weight", "norm.weight", "norm.bias"}
    assert {weight.parameter for weight in merged} == {"weights of product"}


def test_a_failing_cell_names_its_partner_and_the_pairs_are_counted() -> None:
    reference = Reference().eval()
    report = parity.compare(reference, Fused(reference, eps=1e-2).eval(), (torch.randn(2, 5, WIDTH),))
    text = " ".join(str(report).split())
    assert report.failing == ["norm"]
    assert "✗ norm LayerNorm paired with last LayerNorm, by values" in text
    assert "Cells are paired by values" in text
    assert "(-v lists them)" in text
    table = "\n".join(line.plain for line in report.lines(100, verbose=True))
    assert re.search(r"norm +last +by values", table)
    assert re.search(r"back +attention\.out\.weight +by values \(transposed\)", table)
