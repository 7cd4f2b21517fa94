"""Parameters that are shared on either side, in recordings and in JAX, with a map of names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.checking.recordings.against import compare_with_recording
from cellbridge.parity.checking.recordings.recording import open_recording
from cellbridge.parity.results.structure import OTHER_PARTS
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.modules.test_tied_and_partial import IDS, Candidate, Reference

CELLS = '[cells]\n"embed" = "words"\n"head" = "out"\n[parameters]\n'
MAPS = {
    "each by its name": '"embed.weight" = "words.weight"\n"head.weight" = "out.weight"\n',
    "both of one": '"embed.weight" = "words.weight"\n"head.weight" = "words.weight"\n',
    "none": "",
}
CASES = [
    (reference_tied, candidate_tied, "each by its name")
    for reference_tied in (True, False)
    for candidate_tied in (True, False)
]
CASES += [(True, True, "both of one"), (False, True, "both of one"), (True, True, "none"), (False, False, "none")]


class Recordings:
    """Recordings of networks, made once each, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, name: str, module: nn.Module) -> Path:
        if not (self.folder / name).exists():
            parity.record(module, (IDS,), self.folder / name)
        return self.folder / name

    def map(self, lines: str) -> Path:
        path = self.folder / "names.toml"
        path.write_text(CELLS + lines)
        return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return Recordings(tmp_path_factory.mktemp("recordings"))


def judged(recordings: Recordings, reference_tied: bool, candidate: Path, lines: str) -> list[Any]:
    """Return the reports of both ways in which a recording is judged."""
    reference, names = Reference(tied=reference_tied), recordings.map(lines)
    folder = recordings.of(f"reference {reference_tied}", reference)
    return [
        parity.judge(folder, candidate, names=names, diagnose_seconds=0),
        compare_with_recording(reference, candidate, (IDS,), names=names, diagnose_seconds=0),
    ]


def parts(report: Any) -> list[str]:
    return [difference.text for difference in report.structure if difference.kind == OTHER_PARTS]


def of_candidate(recordings: Recordings, reference_tied: bool, candidate_tied: bool, scale: float = 1.0) -> Path:
    candidate = Candidate(Reference(tied=reference_tied), tied=candidate_tied, scale=scale)
    return recordings.of(f"candidate {reference_tied} {candidate_tied} {scale}", candidate)


@pytest.mark.every(2)
@pytest.mark.parametrize(("reference_tied", "candidate_tied", "lines"), CASES)
def test_a_head_tied_on_either_side(
    recordings: Recordings, reference_tied: bool, candidate_tied: bool, lines: str
) -> None:
    """A sound network holds, and the report says where the sides share differently; a faulty one fails."""
    for report in judged(
        recordings, reference_tied, of_candidate(recordings, reference_tied, candidate_tied), MAPS[lines]
    ):
        report.raise_if_failed()
        assert len(parts(report)) == (reference_tied != candidate_tied)
        assert "the sum of their gradients was compared" in "".join(parts(report)) or reference_tied == candidate_tied
    for report in judged(
        recordings, reference_tied, of_candidate(recordings, reference_tied, candidate_tied, 1.01), MAPS[lines]
    ):
        assert report.failing


@pytest.mark.parametrize("reference_tied", [True, False])
def test_without_a_line_the_report_says_what_to_write(recordings: Recordings, reference_tied: bool) -> None:
    for report in judged(recordings, reference_tied, of_candidate(recordings, reference_tied, not reference_tied), ""):
        assert "embed" in report.failing
        (text,) = parts(report)
        assert "lines for embed.weight and head.weight in a map of names compare the sum of their gradients" in text


def planted(path: Path, fault: str) -> Path:
    """Record an untied candidate whose head has a fault."""
    module = Candidate(Reference(tied=True), tied=False)
    with torch.no_grad():
        module.out.weight[2] += fault == "values"
    with Recorder(path) as recorder, recorder.torch(module):
        module(IDS).backward(torch.ones(1, 4, 7))
        if fault != "none":
            assert module.out.weight.grad is not None
            module.out.weight.grad *= {"gradient": 1.01, "lost gradient": 0.0}.get(fault, 1.0)
    return path


@pytest.mark.every(2)
@pytest.mark.parametrize("fault", ["none", "values", "gradient", "lost gradient"])
def test_a_fault_in_the_second_copy(tmp_path: Path, recordings: Recordings, fault: str) -> None:
    names = recordings.map(MAPS["each by its name"])
    reference = Reference(tied=True)
    report = compare_with_recording(
        reference, planted(tmp_path / "c", fault), (IDS,), names=names, diagnose_seconds=0, dtype="float32"
    )
    kinds = {c.kind for cell in report.cells.values() for c in cell.failures if c.tensor == "embed.weight"}
    assert kinds >= {"none": set(), "values": {"parameter"}}.get(fault, {"parameter gradient"})
    assert report.ok == (fault == "none")


def test_the_recorder_writes_a_shared_parameter_once(tmp_path: Path) -> None:
    module = Candidate(Reference(tied=True), tied=True)
    with Recorder(tmp_path / "hooks") as recorder, recorder.torch(module):
        module(IDS).sum().backward()
    parity.record(module, (IDS,), tmp_path / "record")
    for name in ("hooks", "record"):
        recording = open_recording(tmp_path / name)
        assert recording.aliases == {"out.weight": "words.weight"}
        run = recording.run(recording.working_dtype)
        assert list(run.parameters) == list(run.records.gradients.parameters) == ["words.weight"]


def test_equal_tensors_with_gradients_of_their_own_are_not_shared(tmp_path: Path) -> None:
    zeros, gradients = torch.zeros(3), torch.ones(3)
    with Recorder(tmp_path / "c") as recorder:
        recorder.parameter("a.bias", zeros, gradient=gradients)
        recorder.parameter("b.bias", zeros, gradient=gradients * 2)
    assert open_recording(tmp_path / "c").aliases == {}


def test_a_copy_in_another_layout_fails_by_its_shape(recordings: Recordings) -> None:
    lines = '"embed.weight" = "words.weight"\n"head.weight" = { parameter = "out.weight", transpose = [1, 0] }\n'
    for report in judged(recordings, True, of_candidate(recordings, True, False), lines):
        reasons = [c.reason for c in report.cells["embed"].failures]
        assert reasons
        assert all(reason.startswith("shape [4, 7], needed [7, 4]") for reason in reasons)


def test_a_line_for_a_parameter_that_was_not_recorded_is_refused(recordings: Recordings) -> None:
    with pytest.raises(
        UsageError, match=r"head\.weight would be out\.wieght, which isn't in the recording; it has words"
    ):
        judged(recordings, True, of_candidate(recordings, True, True), '"head.weight" = "out.wieght"\n')


def test_summaries_of_copies_are_refused(tmp_path: Path, recordings: Recordings) -> None:
    candidate = Candidate(Reference(tied=True), tied=False)
    parity.record(candidate, (IDS,), tmp_path / "small", budget=300)
    with pytest.raises(UsageError, match="only summarized in a recording: gradients of several can't be added up"):
        judged(recordings, True, tmp_path / "small", MAPS["each by its name"])
