"""A living module compared with a recording: each Cell on the inputs that were recorded, and why it differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from cellbridge import parity
from cellbridge.converter import from_torch
from cellbridge.parity.checking.recordings.agreement import common_part
from cellbridge.parity.cli import main
from cellbridge.parity.sides.records import OUTPUT, Gradients, Key, Records
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.recordings.networks import FAULTS, make, record_elsewhere

MODEL = """
from tests.parity.checking.recordings.networks import make
model, x = make()
inputs = (x,)
"""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.every(2)
def test_the_same_network_agrees_isolated_and_end_to_end(tmp_path: Path, dtype: torch.dtype) -> None:
    record_elsewhere(tmp_path / "other.rec", dtype=dtype)
    module, x = make()
    report = parity.compare(module, tmp_path / "other.rec", (x,))
    assert report.ok, str(report)
    kinds = {(c.feeding, c.kind) for cell in report.cells.values() for c in cell.comparisons}
    assert {("isolated", "output"), ("end to end", "output"), ("isolated", "parameter gradient")} <= kinds


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.every(18)
def test_a_fault_is_placed_in_its_cell(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    fault, path = FAULTS[name]
    record_elsewhere(tmp_path / "bad.rec", fault, dtype)
    module, x = make()
    report = parity.compare(module, tmp_path / "bad.rec", (x,), diagnose_seconds=0)
    assert report.failing == [path], str(report)


@pytest.mark.slow
def test_what_differs_because_of_a_cell_that_was_left_out_fails_nothing(tmp_path: Path) -> None:
    fault, path = FAULTS["a weight"]
    record_elsewhere(tmp_path / "bad.rec", fault)
    module, x = make()
    report = parity.compare(module, tmp_path / "bad.rec", (x,), skip=(path,), diagnose_seconds=0)
    assert report.failing == []
    assert f"Cells that were left out differ: {path}" in report.notes
    chosen = parity.compare(module, tmp_path / "bad.rec", (x,), only=(path,), diagnose_seconds=0)
    assert chosen.failing == [path]


@pytest.mark.slow
@pytest.mark.causes
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("eps of a norm", "eps is 0.001 in the candidate, 1e-05 in the reference"),
        ("a weight", "blocks.2.attention.key.weight is multiplied by 1.001"),
        ("a gradient", "the gradient of the result of linear is multiplied by 1.01"),
    ],
)
@pytest.mark.every(3)
def test_the_cause_of_what_was_recorded_in_float32_is_proved(tmp_path: Path, name: str, cause: str) -> None:
    fault, path = FAULTS[name]
    record_elsewhere(tmp_path / "bad.rec", fault)
    module, x = make()
    report = parity.compare(module, tmp_path / "bad.rec", (x,), diagnose_seconds=60)
    assert any(cause in reported_cause.summary for reported_cause in report.cells[path].causes), str(report)


@pytest.mark.slow
def test_several_faults_are_found_at_once_since_each_cell_is_judged_alone(tmp_path: Path) -> None:
    def all_of_them(net: torch.nn.Module) -> None:
        for name in ("eps of a norm", "the first layer", "the last layer"):
            FAULTS[name][0](net)

    record_elsewhere(tmp_path / "bad.rec", all_of_them)
    module, x = make()
    report = parity.compare(module, tmp_path / "bad.rec", (x,), diagnose_seconds=0)
    assert report.failing == ["blocks.0.norm", "blocks.1.norm", "head"]


def test_a_recording_without_gradients_is_judged_by_its_outputs(tmp_path: Path) -> None:
    module, x = make()
    with Recorder(tmp_path / "out.rec") as recorder, torch.no_grad(), recorder.torch(module):
        module(x)
    report = parity.compare(module, tmp_path / "out.rec", (x,))
    assert report.ok, str(report)
    assert not report.grads


def test_a_recording_of_outputs_alone_is_judged_end_to_end_and_in_its_cells(tmp_path: Path) -> None:
    module, x = make()
    with torch.no_grad():
        y = module.blocks[0](x)
    with Recorder(tmp_path / "out.rec") as recorder:
        recorder.cell("blocks.0", outputs=y.numpy())
    report = parity.compare(module, tmp_path / "out.rec", (x,))
    assert not report.failed
    assert report.not_known == "out.rec doesn't have the network's outputs"
    with Recorder(tmp_path / "bad.rec") as recorder:
        recorder.cell("blocks.0", outputs=y.numpy() * np.float32(1.001))
    assert parity.compare(module, tmp_path / "bad.rec", (x,), diagnose_seconds=0).failing == ["blocks.0"]


def test_other_inputs_are_refused(tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "other.rec")
    module, x = make()
    with pytest.raises(UsageError, match=r"different inputs: the values of x in other\.rec aren't those in the model"):
        parity.compare(module, tmp_path / "other.rec", (x + 1,))


def test_only_a_module_is_compared_with_a_recording(tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "other.rec")
    module, x = make()
    with pytest.raises(UsageError, match="a recording is compared with a torch module, given Program"):
        parity.compare(from_torch(module, (x,)), tmp_path / "other.rec", (x,))


@pytest.mark.slow
def test_assertions_take_recordings(tmp_path: Path) -> None:
    module, x = make()
    record_elsewhere(tmp_path / "other.rec")
    parity.assert_parity(module, tmp_path / "other.rec", (x,))
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    with pytest.raises(AssertionError, match=r"blocks\.2\.attention\.key"):
        parity.assert_parity(module, tmp_path / "bad.rec", (x,), diagnose_seconds=0)


@pytest.mark.slow
def test_the_command_runs_a_model_file_against_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    record_elsewhere(Path("good.rec"))
    record_elsewhere(Path("bad.rec"), FAULTS["a weight"][0])
    run = CliRunner().invoke
    good = run(main, ["run", "model.py", "--against", "good.rec"], catch_exceptions=False)
    assert good.exit_code == 0, good.output
    assert "good.rec (outputs and gradients) agrees with torch" in " ".join(good.output.split())
    bad = run(main, ["run", "model.py", "--against", "bad.rec", "--diagnose-seconds", "0"], catch_exceptions=False)
    assert bad.exit_code == 1
    assert "Parity fails in 1 Cell: blocks.2.attention.key" in bad.output
    for more in (["--round-trip"], ["--train-steps", "2"], ["--save-onnx", "x.onnx"]):
        wrong = run(main, ["run", "model.py", "--against", "good.rec", *more], catch_exceptions=False)
        assert wrong.exit_code == 2
        assert "--against compares" in wrong.output


def test_a_gradient_that_the_reference_lacks_is_not_one_that_the_recording_lacks() -> None:
    x = np.ones(3)
    truth, records = (
        Records({Key("", 0, OUTPUT, "x"): x}, gradients=Gradients({"weight": gradient})) for gradient in (None, x)
    )
    assert common_part(truth, records, ["weight"])[1] == ""
    assert common_part(records, replace(truth, gradients=Gradients({})), [])[1] == "the gradients of 1 parameter"
