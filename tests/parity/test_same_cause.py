"""A cause that several Cells have is told once, with these Cells, in every view of a report."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.report import junit
from cellbridge.parity.report.html.network_page import network_page
from cellbridge.parity.report.report import Report

pytestmark = pytest.mark.causes


class Layer(nn.Module):
    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.up, self.down, self._bad = nn.Linear(6, 12), nn.Linear(6, 6), bad

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.up(x).chunk(2, -1)
        return self.down(b.sigmoid() * a if self._bad else a.sigmoid() * b)


class Network(nn.Module):
    def __init__(self, bad: tuple[bool, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(7, 6)
        self.layers = nn.ModuleList(Layer(is_bad) for is_bad in bad)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.table(x)
        for layer in self.layers:
            y = layer(y)
        return y


@pytest.fixture(scope="module")
def report() -> Any:
    torch.manual_seed(0)
    bad = (True, True, True)
    return parity.compare(Network((False,) * 3), Network(bad), (torch.randint(0, 7, (2, 5)),), probe=False)


CAUSE = "are exchanged in the candidate"


def views(report: Report) -> dict[str, str]:
    page = network_page(report)
    cases = [case.text or "" for case in junit.to_xml(report).iter("failure")]
    return {
        "terminal": str(report),
        "HTML": "\n".join(f"{fault.alike} {cause.in_words}" for fault in page.faults for cause in fault.causes),
        "JUnit": "\n".join(cases),
        "JSON": "\n".join(f"{fault['cells']} {fault['causes']}" for fault in report.to_dict()["faults"]),
    }


@pytest.mark.parametrize("view", ["terminal", "HTML", "JUnit", "JSON"])
@pytest.mark.every(2)
def test_a_cause_is_told_once_with_its_cells(report: Any, view: str) -> None:
    text = " ".join(views(report)[view].split())
    assert report.failing == ["layers.0", "layers.1", "layers.2"]
    assert text.count(CAUSE) == 1
    names = "layers.0, layers.1, layers.2" if view != "JSON" else "'layers.2'"
    assert names in text


def test_each_failing_cell_of_junit_says_where_its_cause_is(report: Any) -> None:
    texts = [" ".join((case.text or "").split()) for case in junit.to_xml(report).iter("failure")]
    (first,) = [path for path in report.failing if any(f"✗ {path} " in text and CAUSE in text for text in texts)]
    assert sum(f"the same cause as in {first}" in text for text in texts) == 2


def test_cells_that_fail_in_other_tensors_have_the_same_cause(report: Any) -> None:
    report = copy.deepcopy(report)
    first = report.cells["layers.0"]  # as where no gradient arrives
    first.comparisons = [c for c in first.comparisons if c.kind == "passed value"]
    assert [len(fault["cells"]) for fault in report.to_dict()["faults"]] == [3]


def test_other_causes_are_told_apart() -> None:
    reference, candidate = Network((False, False)), Network((True, False))
    with torch.no_grad():
        candidate.layers[1].down.bias[2] += 1
    report = parity.compare(reference, candidate, (torch.randint(0, 7, (2, 5)),), probe=False)
    assert [fault["cells"] for fault in report.to_dict()["faults"]] == [["layers.0"], ["layers.1.down"]]
