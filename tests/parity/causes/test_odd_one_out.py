"""Which of three implementations is wrong where outputs differ: a fault is planted in each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.checking import engine
from cellbridge.parity.judging.odd_one_out import Implementations, find_odd_one_out
from cellbridge.parity.results.cell_report import PROGRAM
from cellbridge.parity.sides.records import OUTPUT, Key
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops.registry import get
from tests.parity.reports import SIDES, cell, failing, report
from tests.parity.torch_faults import Tanh, kernel

pytestmark = pytest.mark.causes

X = (torch.linspace(-2, 2, 30).reshape(5, 6),)


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), Tanh(), Gelu(), nn.Linear(6, 3))


def wrong_tanh(x: torch.Tensor) -> torch.Tensor:
    """A kernel of torch that is off by a hundredth."""
    return torch.sinh(x) / torch.cosh(x) * 1.01


def approximated(program: Program) -> Program:
    """The program with GELU in its other form, as a wrong conversion would have it."""
    nodes = tuple(
        node if node.op != "gelu" else type(node)(
            node.op, node.inputs, {**node.attributes, "approximate": "tanh"}, node.outputs, node.cell, node.source
        )
        for node in program.nodes
    )  # fmt: skip
    assert nodes != program.nodes
    return program.replace(nodes=nodes)


def named(report: Any) -> dict[str, str]:
    return {path: cell.wrong_side for path, cell in report.cells.items() if cell.wrong_side}


def test_torch() -> None:
    with kernel("tanh", wrong_tanh):
        report = parity.check(network(), X)
    assert report.failing == ["1"]
    assert named(report) == {"1": "torch"}
    text = " ".join(str(report).split())
    assert "wrong side: torch; the odd one out: interpreter and onnxruntime compute the same from the program" in text


@pytest.mark.slow
def test_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = engine.capture_program
    monkeypatch.setattr(engine, "capture_program", lambda *given: approximated(capture(*given)))
    report = parity.check(network(), X)
    assert named(report) == {"2": PROGRAM}
    assert "and so does torch, in float64" in report.cells["2"].wrong_side_reason


def test_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get("tanh"), "kernel_rule", lambda x: np.tanh(x) * 1.01)
    report = parity.check(network(), X)
    assert named(report) == {"1": "interpreter"}
    assert report.cells["1"].wrong_side_reason == "the odd one out: torch and onnxruntime compute the same"


def test_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get("tanh"), "onnx_rule", lambda graph, x: graph.op("Sin", x))
    report = parity.check(network(), X)
    assert named(report) == {"1": "onnxruntime"}
    assert report.cells["1"].wrong_side_reason.endswith("compute the same, in float64 too")
    (cause,) = report.cells["1"].causes  # it is the export, and not ONNX Runtime
    assert (cause.kind, cause.option) == ("model", "")
    assert "the interpreter computes the same" in cause.proof


@pytest.mark.slow
def test_nobody_if_all_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get("tanh"), "kernel_rule", lambda x: np.tanh(x) * 1.02)
    with kernel("tanh", wrong_tanh):
        report = parity.check(network(), X)
    assert report.failing == ["1"]
    assert named(report) == {}


def test_a_file(tmp_path: Path) -> None:
    to_onnx(approximated(from_torch(network(), X)), tmp_path / "net.onnx")
    report = parity.compare(network(), str(tmp_path / "net.onnx"), X)
    assert named(report) == {"2": PROGRAM}
    assert "candidate and candidate in onnxruntime compute the same from it" in report.cells["2"].wrong_side_reason


@pytest.mark.parametrize(
    ("runtime", "torch_agrees_with", "wrong_side"),
    [
        ([1.0, 2.0], "", "the program or torch"),
        ([1.0, 2.0], "program", PROGRAM),
        ([1.0, 2.0], "reference", "torch"),
        ([1.0, 2.1], "program", ""),  # all three differ
        ([1.0, np.nan], "program", ""),
        ([1.0], "program", ""),
    ],
)
def test_where_both_differ_from_torch(runtime: list[float], torch_agrees_with: str, wrong_side: str) -> None:
    faulty_report = report({}, cell("", "Net", *(failing(side=side) for side in SIDES)))
    key = Key("", 0, OUTPUT, "output")
    arrays = {"interpreter": [1.0, 2.0], "onnxruntime": runtime}
    computed = {(side, "isolated"): {key: (np.array(values), 1e-6)} for side, values in arrays.items()}
    find_odd_one_out(faulty_report, Implementations("torch", *SIDES), computed, lambda _: torch_agrees_with)
    assert faulty_report.cells[""].wrong_side == wrong_side
