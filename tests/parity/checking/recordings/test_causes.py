"""The causes of what two recordings differ in are proved with the program in the reference's."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.jobs.training.training_config import TrainingConfig
from cellbridge.parity.report.report import Report
from cellbridge.recorder import PROGRAM, Recorder
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.recordings.networks import FAULTS, loss, make, record_elsewhere, record_reference

EPS = "eps is 0.001 in the candidate, 1e-05 in the reference"
pytestmark = pytest.mark.causes


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "ref.rec"
    record_reference(path)
    return path


def causes(report: Report) -> list[str]:
    return [cause.summary for cell in report.cells.values() for cause in cell.causes]


def judge(reference: Path, candidate: Path, **options: Any) -> Report:
    return parity.judge(reference, candidate, diagnose_seconds=60, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("eps of a norm", EPS),
        ("a weight", "blocks.2.attention.key.weight is multiplied by 1.001 in the candidate"),
        ("a gradient", "the gradient of the result of linear is multiplied by 1.01 in the candidate"),
    ],
)
@pytest.mark.every(6)
def test_common_mistakes_are_proved_with_values_alone(
    reference: Path, tmp_path: Path, name: str, cause: str, dtype: torch.dtype
) -> None:
    record_elsewhere(tmp_path / "bad.rec", FAULTS[name][0], dtype)
    report = judge(reference, tmp_path / "bad.rec")
    assert causes(report) == [cause], str(report)
    # the gradients of the loss differ after the fault: the Cell is run with those that arrived there
    assert all(reported_cause.gradients for cell in report.cells.values() for reported_cause in cell.causes)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("the first layer", "the scale 1.0001 is applied in the candidate in addition"),
        ("the last layer", "add with 0.001 is computed in the candidate in addition"),
        ("an activation", "clamp is computed in the candidate in addition"),
        ("code around Cells", "the scale 1.01 is applied in the candidate in addition"),
    ],
)
@pytest.mark.every(3)
def test_other_code_is_found_between_the_programs_of_both(
    reference: Path, tmp_path: Path, name: str, cause: str
) -> None:
    module, x = make()
    FAULTS[name][0](module)
    parity.record(module, (x,), tmp_path / "bad.rec", loss=loss)
    report = judge(reference, tmp_path / "bad.rec")
    assert causes(report) == [cause], str(report)


@pytest.mark.slow
def test_a_living_module_is_compared_with_the_program_of_a_recording(tmp_path: Path) -> None:
    module, x = make()
    FAULTS["an activation"][0](module)
    parity.record(module, (x,), tmp_path / "bad.rec", loss=loss)
    report = parity.compare(make()[0], tmp_path / "bad.rec", (x,), diagnose_seconds=60)
    assert causes(report) == ["clamp is computed in the candidate in addition"], str(report)


def test_without_a_program_no_causes_are_looked_for_and_that_is_said(tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "ref.rec")
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    report = judge(tmp_path / "ref.rec", tmp_path / "bad.rec")
    assert not causes(report)
    assert any("ref.rec has no program of its network: parity record writes one" in note for note in report.notes)
    # what parameters themselves show is said anyway
    reasons = [c.reason for c in report.cells["blocks.2.attention.key"].failures if c.kind == "parameter"]
    assert reasons == ["the values differ, by up to 0.000248: that of bad.rec is multiplied by 1.001"]


def test_no_time_for_causes(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    assert not causes(parity.judge(reference, tmp_path / "bad.rec", diagnose_seconds=0))


def test_a_damaged_program_costs_the_causes_alone(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "ref.rec")
    record_elsewhere(tmp_path / "bad.rec", FAULTS["a weight"][0])
    whole = (reference / PROGRAM).read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"PK"):
        (tmp_path / "ref.rec" / PROGRAM).write_bytes(content)
        report = judge(tmp_path / "ref.rec", tmp_path / "bad.rec")
        assert report.failing == ["blocks.2.attention.key"]
        assert any("so no cause was looked for" in n and "not a saved program" in n for n in report.notes), report.notes


def test_the_program_of_another_network_proves_nothing(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "ref.rec")
    parity.record(nn.Sequential(nn.Linear(16, 16)), (torch.zeros(2, 7, 16),), tmp_path / "other.rec")
    shutil.copy(tmp_path / "other.rec" / PROGRAM, tmp_path / "ref.rec" / PROGRAM)
    record_elsewhere(tmp_path / "bad.rec", FAULTS["eps of a norm"][0])
    report = judge(tmp_path / "ref.rec", tmp_path / "bad.rec")
    assert report.failing == ["blocks.1.norm"]
    assert not causes(report)


def test_a_program_with_other_numbers_proves_nothing(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "ref.rec")
    with zipfile.ZipFile(reference / PROGRAM) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["program.json"] = members["program.json"].replace(b'"eps": 1e-05', b'"eps": 0.1')
    with zipfile.ZipFile(tmp_path / "ref.rec" / PROGRAM, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    record_elsewhere(tmp_path / "bad.rec", FAULTS["eps of a norm"][0])
    report = judge(tmp_path / "ref.rec", tmp_path / "bad.rec")
    assert not causes(report), "the program isn't the recorded network"


def test_a_program_that_is_no_regular_file_is_refused(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "ref.rec")
    (tmp_path / "ref.rec" / PROGRAM).unlink()
    os.mkfifo(tmp_path / "ref.rec" / PROGRAM)
    with pytest.raises(UsageError, match="program"):
        judge(tmp_path / "ref.rec", reference)


def test_the_cause_of_what_differs_in_a_later_step(tmp_path: Path) -> None:
    def network() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))

    batches = [torch.randn(6, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    training = TrainingConfig(steps=3, optimizer="adamw", lr=0.01)
    others = [((batch,), {}) for batch in batches[1:]]
    parity.record(
        network(), (batches[0],), tmp_path / "ref.rec", training=training, more_inputs=others, loss=lambda y: y.sum()
    )
    module = network()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    with Recorder(tmp_path / "bad.rec", mode="train") as recorder:
        for step, batch in enumerate(batches):
            module[1].eps = 1e-5 if step < 2 else 0.001
            optimizer.zero_grad()
            with recorder.torch(module):
                module(batch).sum().backward()
            optimizer.step()
            recorder.step()
    report = judge(tmp_path / "ref.rec", tmp_path / "bad.rec")
    assert report.failing == ["1"]
    assert [EPS in cause for cause in causes(report)] == [True], str(report)


def test_a_part_of_a_network_has_a_program_too(tmp_path: Path) -> None:
    record_reference(tmp_path / "ref.rec", only=["blocks.1", "blocks.1.*"])
    record_elsewhere(tmp_path / "bad.rec", FAULTS["eps of a norm"][0])
    report = judge(tmp_path / "ref.rec", tmp_path / "bad.rec")
    assert causes(report) == [EPS], str(report)


def test_a_network_that_can_not_be_captured_is_recorded_without_a_program(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    size = parity.record(Branching(), (torch.ones(3),), tmp_path / "ref.rec")
    assert size.without_program
    assert not (tmp_path / "ref.rec" / PROGRAM).exists()
    assert parity.judge(tmp_path / "ref.rec", tmp_path / "ref.rec").ok
