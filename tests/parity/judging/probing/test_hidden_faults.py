"""Faults that the given inputs hide are found by probes, and sound pairs pass."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge import parity
from cellbridge.parity import assert_parity
from cellbridge.parity.cli import main
from cellbridge.parity.judging.probing import work
from cellbridge.parity.report import junit
from cellbridge.runtime import ParityError
from cellbridge.runtime import nn as cells
from tests.parity.judging.probing.hidden_faults import FAULTS, QUICK
from tests.parity.pairing.ports.ports import made

NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FAULTS]
SOUND = [
    pytest.param(name, marks=() if name in ("bound behind a norm", "cache of the first length") else pytest.mark.slow)
    for name in FAULTS
]
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.every(12)
def test_a_hidden_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    right, wrong, args = fault.pair()
    assert parity.compare(right, wrong, args, grads=False, probe=False).ok
    report = parity.compare(right, wrong, args, grads=False, probe=True)
    assert not report.ok
    failures = [c for cell in report.cells.values() for c in cell.failures]
    assert all(re.search(fault.probe, c.probe) for c in failures), {c.probe for c in failures}
    assert report.failing == [fault.cell]
    assert f"with {failures[0].probe}" in " ".join(str(report).split())


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.every(2)
def test_the_right_network_passes(name: str) -> None:
    (reference, _, args), (candidate, _, _) = FAULTS[name].pair(), FAULTS[name].pair()
    report = parity.compare(reference, candidate, args, grads=False, probe=True)
    assert report.ok, str(report)
    assert len(report.probes) > 5
    assert any("was also compared on" in note for note in report.notes)


@pytest.mark.parametrize(
    "name", ["conv1d", *(pytest.param(n, marks=pytest.mark.slow) for n in ("encoder", "lstm", "lenet"))]
)
def test_a_right_port_passes(name: str) -> None:
    module, cell, args = made(name)
    report = parity.compare(module, cell, args, probe=True)
    assert report.ok, str(report)


class Strided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class PadsSame(cells.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = cells.Conv2d(3, 4, 3, stride=2, pad_mode="same", has_bias=True)

    def construct(self, x: Any) -> Any:
        return self.conv(x)


def test_a_port_that_agrees_at_odd_sizes_only_fails_with_the_difference_of_the_apis() -> None:
    args = (torch.randn(2, 3, 9, 9),)
    assert parity.compare(Strided(), PadsSame(), args, probe=False).ok
    report = parity.compare(Strided(), PadsSame(), args, probe=True)
    assert report.failing == ["conv"]
    assert {c.probe for c in report.cells["conv"].failures} == {"size 10 in place of 9 (axis 2 of x, axis 3 of x)"}
    (explanation,) = report.cells["conv"].explanations
    assert "pad_mode='same' in the candidate, padding=1 in the reference" in explanation


def test_a_port_that_agrees_at_this_size_is_noted_where_the_network_takes_no_other() -> None:
    class OneSize(Strided):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[2:] != (9, 9):
                raise ValueError("takes images of 9 by 9")
            return super().forward(x)

    report = parity.compare(OneSize(), PadsSame(), (torch.randn(2, 3, 9, 9),), probe=True)
    assert report.ok, str(report)
    assert any("conv agrees at this size, not at all sizes: Conv2d: pad_mode='same'" in n for n in report.notes)


def test_every_format_names_the_probe(tmp_path: Path) -> None:
    right, wrong, args = FAULTS["absolute value left out"].pair()
    report = parity.compare(right, wrong, args, grads=False, probe=True)
    probe = "x of either sign from 0.001 to 1000"
    failures = [c for cell in report.to_dict()["cells"] for c in cell["comparisons"] if c["status"] == "fail"]
    assert {c["probe"] for c in failures} == {probe}
    assert report.to_dict()["probes"] == [probe]
    assert f"with {probe}" in report.network_verdict.because
    (failure,) = junit.to_xml(report).iter("failure")
    assert f"with {probe}" in failure.get("message", "")
    page = tmp_path / "report.html"
    report.write_html(page)
    assert probe in page.read_text()


@pytest.mark.probes
def test_two_modules_and_a_port_are_probed_unless_told_otherwise() -> None:
    right, wrong, args = FAULTS["absolute value left out"].pair()
    assert not parity.compare(right, wrong, args, grads=False).ok
    without = parity.compare(right, wrong, args, grads=False, probe=False)
    assert without.ok
    assert without.probes == []
    with pytest.raises(ParityError):
        assert_parity(right, wrong, args)
    strided = (torch.randn(2, 3, 9, 9),)
    assert not parity.compare(Strided(), PadsSame(), strided).ok
    assert not parity.check(Strided(), strided, cell=PadsSame(), sides=["cell"]).ok
    assert parity.check(Strided(), strided, cell=PadsSame(), sides=["cell"], probe=False).ok


@pytest.mark.probes
def test_two_model_files_are_probed_unless_told_otherwise(tmp_path: Path) -> None:
    files = []
    for name in ("ReLU", "ReLU6"):
        files.append(str(tmp_path / f"{name}.py"))
        text = f"import torch\nmodel = torch.nn.{name}\ninputs = (torch.linspace(-1, 1, 8),)\n"
        Path(files[-1]).write_text(text)
    result = CliRunner().invoke(main, ["compare", *files])
    assert result.exit_code == 1, result.output
    assert "with input" in " ".join(result.output.split())
    assert CliRunner().invoke(main, ["compare", *files, "--no-probe"]).exit_code == 0


def test_what_fails_on_the_given_inputs_is_not_probed() -> None:
    assert parity.compare(nn.Sequential(nn.ReLU()), nn.Sequential(nn.GELU()), (X,), probe=True).probes == []


def test_what_was_left_out_to_bound_the_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "LEAST", 0.0)
    monkeypatch.setattr(work, "RUNS", 0.0)
    report = parity.compare(nn.ReLU(), nn.ReLU(), (X,), probe=True)
    assert report.ok
    late = r"on 0 inputs derived .*; \d+ more and the gradients on \d+ were left out, to bound the work"
    assert re.search(late, report.notes[-1])


def test_inputs_that_the_reference_does_not_take_are_counted() -> None:
    class Takes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.min() < 0 or x.max() > 1:
                raise ValueError("takes shares")
            return x.log1p()

    report = parity.compare(Takes(), Takes(), (X.sigmoid(),), probe=True)
    assert report.ok, str(report)
    assert re.search(r"reference doesn't run, or isn't finite, on \d+ others", report.notes[-1])


def test_a_program_of_fixed_size_and_mode_is_not_run_otherwise() -> None:
    report = parity.check(nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)), (X,), probe=True)
    assert report.ok, str(report)
    assert report.probes
    assert not any("size" in name or "mode" in name for name in report.probes)


def test_a_copy_for_eval_mode_is_not_compared_in_train_mode() -> None:
    network = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)).eval()
    copy = nn.Sequential(nn.Linear(6, 3), nn.Identity()).eval()
    copy.load_state_dict(network.state_dict())
    report = parity.compare(network, copy, (X,), probe=True)
    assert report.ok, str(report)


@pytest.mark.slow
def test_a_size_that_the_reference_alone_takes_is_noted() -> None:
    class Views(nn.Module):
        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(self.rows, 6) * 2

    report = parity.compare(Views(-1), Views(4), (X,), probe=True)
    assert report.ok, str(report)
    (note,) = (note for note in report.notes if "doesn't run with" in note)
    assert note.startswith(
        "candidate doesn't run with size 5 in place of 4 (axis 0 of x), which reference takes: it raises"
    )
    assert any("size" in probe for probe in parity.compare(Views(-1), Views(-1), (X,), probe=True).probes)


def test_a_side_that_raises_on_other_values_fails() -> None:
    class Checks(nn.Module):
        def __init__(self, most: float) -> None:
            super().__init__()
            self.most = most

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.abs().max() > self.most:
                raise ValueError("too large")
            return x * 2

    report = parity.compare(Checks(1e9), Checks(100.0), (X,), probe=True)
    assert not report.ok
    assert all("raises ValueError" in c.reason for c in report.cells[""].failures)


def test_a_branch_that_a_program_lacks_is_found_on_export_by_default(tmp_path: Path) -> None:
    file, onnx = tmp_path / "branches.py", tmp_path / "branches.onnx"
    file.write_text(
        "import torch\n"
        "class Branches(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * 2 if torch.compiler.is_compiling() or x.max() < 50 else x * 3\n"
        "model = Branches\n"
        "inputs = (torch.linspace(-1, 1, 8),)\n"
    )
    export_result = CliRunner().invoke(main, ["export", str(file), "-o", str(onnx)])
    assert export_result.exit_code == 1
    assert "with x at values at which operations switch" in " ".join(export_result.output.split())
    assert not onnx.exists()
    assert CliRunner().invoke(main, ["run", str(file)]).exit_code == 0
    report_file = tmp_path / "report.json"
    assert CliRunner().invoke(main, ["run", str(file), "--probe", "--json", str(report_file)]).exit_code == 1
    assert json.loads(report_file.read_text())["probes"]
    assert CliRunner().invoke(main, ["export", str(file), "-o", str(onnx), "--no-probe"]).exit_code == 0


@pytest.mark.causes
def test_the_cause_is_looked_for_on_the_probe() -> None:
    right, wrong, args = FAULTS["bound behind a norm"].pair()
    report = parity.compare(right, wrong, args, probe=True)
    (cause,) = report.cells[""].causes
    assert cause.summary == "in clamp, max is 5 in the candidate, 6 in the reference"


@pytest.mark.causes
@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("rounded down", "ceil_mode is False in the candidate, True in the reference"),
        ("rate of dropout", "in dropout, p is 0.1 in the candidate, 0.5 in the reference"),
    ],
)
@pytest.mark.every(2)
def test_the_cause_is_looked_for_at_other_sizes_and_in_another_mode(name: str, summary: str) -> None:
    right, wrong, args = FAULTS[name].pair()
    report = parity.compare(right, wrong, args, probe=True)
    (cause,) = report.cells[FAULTS[name].cell].causes
    assert cause.summary == summary


def test_a_side_without_float64_fails_too() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if torch.compiler.is_compiling() or x.max() < 50 else x * 3

    report = parity.check(Branches(), (X,), sides=["onnxruntime"], probe=True)
    assert not report.ok
    assert all(c.probe and c.check == "rounding" for c in report.cells[""].failures)
