"""Causes, and failing Cells without any, have the lines of both sides at which the networks part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.hunk import NOWHERE, CodeLine, Hunk

pytestmark = pytest.mark.causes

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = F.gelu(x, approximate="tanh")
        scaled = x * 3.0
        return scaled + 1.0


class OtherSetting(Reference):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x))
        return x * 3.0 + 1.0


class LeftOut(Reference):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x), approximate="tanh")
        return x + 1.0


class InAddition(Reference):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x), approximate="tanh")
        x = torch.sin(x)
        return x * 3.0 + 1.0


class OtherTwice(Reference):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x), approximate="tanh")
        x = x * 2.0
        return x + 5.0


def compared(candidate: nn.Module) -> Report:
    report = parity.compare(Reference(), candidate, (X,))
    assert report.failing == [""]
    return report


def texts(lines: tuple[CodeLine, ...]) -> list[str]:
    return [line.text for line in lines]


def the_hunk(report: Report) -> Hunk:
    (cause,) = report.cells[""].causes
    return cause.hunk


def test_a_setting_has_the_line_of_both_sides() -> None:
    hunk = the_hunk(compared(OtherSetting()))
    assert texts(hunk.reference) == ['x = F.gelu(x, approximate="tanh")']
    assert texts(hunk.candidate) == ["x = F.gelu(self.first(x))"]
    for line, module in ((hunk.reference[0], Reference), (hunk.candidate[0], OtherSetting)):
        assert line.file == __file__
        assert Path(__file__).read_text().splitlines()[line.line - 1].strip() == line.text
        assert line.line > module.forward.__code__.co_firstlineno
        assert line.ops == ("gelu",)


def test_what_is_left_out_has_the_line_that_goes_on_without_it() -> None:
    hunk = the_hunk(compared(LeftOut()))
    assert hunk.reference[0].text == "scaled = x * 3.0"
    assert hunk.reference[0].ops == ("mul",)
    assert texts(hunk.candidate) == ["return x + 1.0"]


def test_what_is_computed_in_addition_has_the_line_of_the_reference_that_goes_on() -> None:
    hunk = the_hunk(compared(InAddition()))
    assert texts(hunk.reference) == ["scaled = x * 3.0"]
    assert texts(hunk.candidate) == ["x = torch.sin(x)"]


def test_each_of_several_causes_has_its_own_lines() -> None:
    causes = compared(OtherTwice()).cells[""].causes
    assert [texts(cause.hunk.reference) for cause in causes] == [["scaled = x * 3.0"], ["return scaled + 1.0"]]
    assert [texts(cause.hunk.candidate) for cause in causes] == [["x = x * 2.0"], ["return x + 5.0"]]


def test_a_parameter_has_the_lines_that_use_it() -> None:
    candidate = Reference()
    nn.init.zeros_(candidate.first.weight)
    (cause,) = parity.compare(Reference(), candidate, (X,)).cells["first"].causes
    assert cause.kind == "weight"
    assert [line.ops for line in cause.hunk.reference] == [("linear",)]
    assert cause.hunk.reference == cause.hunk.candidate


def test_a_node_of_a_file_stands_for_its_line() -> None:
    report = parity.compare(Reference(), to_onnx(from_torch(OtherSetting(), (X,))), (X,))
    (cause,) = report.cells[""].causes
    assert texts(cause.hunk.reference) == ['x = F.gelu(x, approximate="tanh")']
    (line,) = cause.hunk.candidate
    assert (line.file, line.line) == ("", 0)
    assert line.text
    assert "gelu" in " ".join(line.ops)


@pytest.mark.usefixtures("opaque_candidates")
def test_a_candidate_that_cannot_be_captured_has_the_line_at_which_it_begins() -> None:
    hunk = the_hunk(compared(OtherSetting()))
    assert texts(hunk.reference) == ['x = F.gelu(x, approximate="tanh")']
    assert texts(hunk.candidate) == ["def forward(self, x: torch.Tensor) -> torch.Tensor:"]
    assert hunk.candidate[0].line == OtherSetting.forward.__code__.co_firstlineno


def test_without_a_search_for_causes_the_code_of_the_cell_is_named() -> None:
    report = parity.compare(Reference(), OtherSetting(), (X,), diagnose_seconds=0)
    assert not report.cells[""].causes
    for lines, module in (
        (report.cells[""].hunk.reference, Reference),
        (report.cells[""].hunk.candidate, OtherSetting),
    ):
        assert [(line.file, line.line) for line in lines] == [(__file__, module.forward.__code__.co_firstlineno)]


def test_a_cell_that_passes_has_no_hunk() -> None:
    report = parity.compare(Reference(), Reference(), (X,))
    assert {cell.hunk for cell in report.cells.values()} == {NOWHERE}


def test_a_failing_cell_without_a_cause_has_the_lines_that_compute_what_differs() -> None:
    class Rewritten(Reference):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for _ in range(3):
                x = torch.tanh(x.exp().sqrt() - x.sin().abs()) / (1 + x.square().cumsum(1))
            return x.flip(0).roll(1, 1)

    cell = compared(Rewritten()).cells[""]
    assert not cell.causes
    assert texts(cell.hunk.reference) == ["return scaled + 1.0"]
    assert texts(cell.hunk.candidate) == ["return x.flip(0).roll(1, 1)"]
