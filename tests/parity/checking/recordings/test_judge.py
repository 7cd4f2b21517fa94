"""`parity.judge`: faults planted in a recorded network are found, and placed in their Cells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator

from cellbridge import parity
from cellbridge.parity.report.formats import FORMATS
from cellbridge.parity.report.report import Report
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.recordings.networks import FAULTS, loss, make, record_elsewhere, record_reference


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "ref.rec"
    record_reference(path)
    return path


def judge(reference: Path, candidate: Path, **options: Any) -> Report:
    return parity.judge(reference, candidate, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.every(2)
def test_the_same_network_recorded_elsewhere_agrees(reference: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    record_elsewhere(tmp_path / "other.rec", dtype=dtype)
    report = judge(reference, tmp_path / "other.rec")
    assert report.ok, str(report)
    assert sum(len(cell.comparisons) for cell in report.cells.values()) > 100
    assert {c.check for cell in report.cells.values() for c in cell.comparisons if c.kind == "output"} == {
        "meaning" if dtype == torch.float64 else "rounding"
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.every(6)
def test_a_fault_is_placed_in_its_cell(reference: Path, tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    fault, path = FAULTS[name]
    record_elsewhere(tmp_path / "bad.rec", fault, dtype)
    report = judge(reference, tmp_path / "bad.rec")
    assert report.failing == [path], str(report)
    failures = [c for c in report.cells[path].failures if c.of_cell_alone]
    assert failures
    assert all(c.feeding in ("equal inputs", "isolated") for c in failures)


def test_two_faults_are_both_found(reference: Path, tmp_path: Path) -> None:
    def both(net: Any) -> None:
        for name in ("a weight", "the first layer"):
            FAULTS[name][0](net)

    record_elsewhere(tmp_path / "bad.rec", both)
    # the second one by its weight, since its inputs differ already
    assert set(judge(reference, tmp_path / "bad.rec").failing) == {"blocks.0.norm", "blocks.2.attention.key"}


def test_without_float64_rounding_alone_is_judged_by_an_assumed_bar(tmp_path: Path) -> None:
    record_reference(tmp_path / "ref.rec", float64=False)
    record_elsewhere(tmp_path / "other.rec")
    report = judge(tmp_path / "ref.rec", tmp_path / "other.rec")
    assert report.ok
    assert any("wasn't recorded in float64" in note and "80 units" in note for note in report.notes)
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    assert judge(tmp_path / "ref.rec", tmp_path / "bad.rec").failing == ["blocks.2.attention.key"]


def test_a_candidate_in_float64_alone_needs_a_reference_in_float64(tmp_path: Path) -> None:
    record_reference(tmp_path / "ref.rec", float64=False)
    record_elsewhere(tmp_path / "other.rec", dtype=torch.float64)
    with pytest.raises(UsageError, match="record the reference in float64 too"):
        judge(tmp_path / "ref.rec", tmp_path / "other.rec")


def test_a_recording_of_the_outputs_alone_is_judged(reference: Path, tmp_path: Path) -> None:
    """As a program in another language writes it: what isn't recorded is said, and a fault is placed behind it."""

    def record(path: Path, fault: Any = None) -> None:
        module, x = make()
        if fault is not None:
            fault(module)
        path.mkdir()
        for name, each in module.named_modules():
            if name in ("blocks.0", "blocks.1", "blocks.2", "head"):
                (path / name).mkdir()
                each.register_forward_hook(
                    lambda _, args, y, name=name: np.save(path / name / "output.0.npy", y.detach().numpy())
                )
        module(x)

    record(tmp_path / "arrays")
    report = judge(reference, tmp_path / "arrays")
    assert not report.failed, str(report)
    assert report.not_known == "arrays doesn't have the network's outputs"
    assert any("arrays doesn't have" in note for note in report.notes)
    assert report.cells["blocks.0.norm"].presence == "unpaired"
    record(tmp_path / "bad", FAULTS["eps of a norm"][0])
    assert judge(reference, tmp_path / "bad").failing == ["blocks.1"]


def test_other_inputs_are_refused(reference: Path, tmp_path: Path) -> None:
    module, x = make()
    parity.record(module, (x + 1e-3,), tmp_path / "other.rec", loss=loss)
    with pytest.raises(UsageError, match="different inputs: the values of x"):
        judge(reference, tmp_path / "other.rec")
    parity.record(module, (x[:1],), tmp_path / "smaller.rec", loss=loss)
    with pytest.raises(UsageError, match=r"x has the shape \[1, 7, 16\] in smaller.rec, \[2, 7, 16\] in ref.rec"):
        judge(reference, tmp_path / "smaller.rec")


def test_another_network_has_nothing_in_common(reference: Path, tmp_path: Path) -> None:
    with Recorder(tmp_path / "other.rec") as recorder:
        recorder.cell("encoder.0", inputs=np.zeros(3, np.float32), outputs=np.ones(3, np.float32))
    with pytest.raises(UsageError, match="no Cell in common"):
        judge(reference, tmp_path / "other.rec")


def test_gradients_of_another_loss_are_not_compared_and_that_is_no_pass(reference: Path, tmp_path: Path) -> None:
    module, x = make()
    parity.record(module, (x,), tmp_path / "other.rec", loss=lambda outputs: outputs["scores"].sum())
    report = judge(reference, tmp_path / "other.rec")
    assert not report.ok
    assert "record both with the same loss" in str(report)
    assert judge(reference, tmp_path / "other.rec", grads=False).ok


def test_a_parameter_without_a_gradient_is_a_finding(reference: Path, tmp_path: Path) -> None:
    def freeze(net: Any) -> None:
        net.blocks[1].attention.out.bias.requires_grad_(False)

    record_elsewhere(tmp_path / "bad.rec", freeze)
    assert judge(reference, tmp_path / "bad.rec").failing == ["blocks.1.attention.out"]


def test_summaries_are_compared_by_their_elements(tmp_path: Path) -> None:
    record_reference(tmp_path / "ref.rec")
    record_elsewhere(tmp_path / "small.rec", budget=6000)
    report = judge(tmp_path / "ref.rec", tmp_path / "small.rec")
    assert report.ok, str(report)
    assert any("some elements alone were compared of" in note for note in report.notes)
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0], budget=6000)
    assert "blocks.2.attention.key" in judge(tmp_path / "ref.rec", tmp_path / "bad.rec").failing


def test_only_and_skip_choose_the_cells(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    assert judge(reference, tmp_path / "bad.rec", only=["blocks.0*"]).ok
    assert not judge(reference, tmp_path / "bad.rec", only=["blocks.2*"]).ok


@pytest.mark.slow
def test_an_incomplete_recording_is_judged_up_to_where_it_stopped(reference: Path, tmp_path: Path) -> None:
    module, x = make()
    path = tmp_path / "stopped.rec"
    module.blocks[2].act.register_forward_pre_hook(_stop)
    with pytest.raises(RuntimeError, match="power cut"), Recorder(path) as recorder, recorder.torch(module):
        module(x)
    report = judge(reference, path)
    assert any("incomplete" in note for note in report.notes)
    assert report.cells["blocks.1.norm"].status == "pass"
    assert not report.cells["head"].outputs


def _stop(*_: Any) -> None:
    raise RuntimeError("power cut")


def test_the_report_is_one_like_any_other(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    report = judge(reference, tmp_path / "bad.rec")
    assert report.to_dict()["reference"] == "ref.rec"
    FORMATS["json"].write(report, str(tmp_path / "report.json"))
    written = json.loads((tmp_path / "report.json").read_text())
    schema = json.loads((Path(__file__).parents[4] / "docs" / "report.schema.json").read_text())
    Draft202012Validator(schema).validate(written)
    feedings = {c["feeding"] for cell in written["cells"] for c in cell["comparisons"]}
    assert feedings == {"equal inputs", "end to end", "isolated"}
    report.write_html(tmp_path / "report.html")
    assert "blocks.2.attention.key" in (tmp_path / "report.html").read_text()
    with pytest.raises(AssertionError, match=r"blocks\.2\.attention\.key"):
        report.raise_if_failed()


def test_a_moved_recording_is_the_same(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "moved")
    assert judge(reference, tmp_path / "moved").ok


def test_recordings_of_some_cells_alone_are_judged(tmp_path: Path) -> None:
    """There is nothing around them: what they were given is the network's."""
    x, y = (np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32) for seed in (0, 1))
    for name, factor in (("ref", 1.0), ("same", 1.0), ("bad", 1.01)):
        with Recorder(tmp_path / name) as recorder:
            recorder.cell("a", inputs=x, outputs=y)
            recorder.cell("b", inputs=y, outputs=(y * np.float32(factor)) ** 2)
    report = judge(tmp_path / "ref", tmp_path / "same")
    assert not report.failed
    assert report.not_known == "ref has no output of the network itself"
    assert judge(tmp_path / "ref", tmp_path / "bad").failing == ["b"]
