"""Recordings in which nothing differs, and too little is there to know whether the networks are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.parity.report import junit
from cellbridge.parity.report.report import Report
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import ParityError
from tests.parity.checking.recordings.networks import loss, make, record_elsewhere, record_reference

Entry = dict[str, Any]

KEPT: dict[str, tuple[Callable[[Entry], bool], str]] = {
    "inputs and the first Cell": (
        lambda entry: entry["role"] == "input" or entry.get("cell", "") == "blocks.0.norm",
        "doesn't have the network's outputs",
    ),
    "all but the outputs of the network": (
        lambda entry: (entry["role"], entry.get("cell")) != ("output", ""),
        "doesn't have the network's outputs",
    ),
    "one of two outputs": (
        lambda entry: (entry["role"], entry.get("cell"), entry["slot"]) != ("output", "", "['scores']"),
        "doesn't have the network's output ['scores']",
    ),
    "the input of the network alone": (
        lambda entry: (entry["role"], entry.get("cell")) == ("input", ""),
        "doesn't have the network's outputs",
    ),
    "parameters and an input alone": (
        lambda entry: entry["role"] == "parameter" or (entry["role"], entry.get("cell")) == ("input", ""),
        "doesn't have the network's outputs",
    ),
    "gradients without outputs": (
        lambda entry: entry["role"] != "output",
        "doesn't have the network's outputs",
    ),
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings") / "ref.rec"
    record_reference(path)
    return path


def judge(reference: Path, candidate: Path) -> Report:
    return parity.judge(reference, candidate)


def against(_: Path, candidate: Path) -> Report:
    module, x = make()
    return parity.compare(module, candidate, (x,), diagnose_seconds=0)


def keep(recording: Path, kept: Callable[[Entry], bool]) -> None:
    index = json.loads((recording / "recording.json").read_text())
    index["tensors"] = [entry for entry in index["tensors"] if kept(entry)]
    (recording / "recording.json").write_text(json.dumps(index))


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("way", [judge, against])
@pytest.mark.every(6)
def test_parity_is_not_known_without_the_outputs_of_the_network(
    reference: Path, tmp_path: Path, way: Callable[[Path, Path], Report], name: str
) -> None:
    kept, reason = KEPT[name]
    record_elsewhere(tmp_path / "part.rec")
    keep(tmp_path / "part.rec", kept)
    report = way(reference, tmp_path / "part.rec")
    assert not report.ok
    assert not report.failed
    assert reason in report.not_known
    assert report.network_verdict.verdict == "not known"
    text = " ".join(str(report).split())
    assert "! Parity is not known:" in text
    assert "holds" not in text
    assert "not known" in repr(report)
    with pytest.raises(ParityError, match="Parity is not known"):
        report.raise_if_failed()


def test_a_fault_beside_missing_outputs_is_a_failure(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "bad.rec", lambda net: net.blocks[0].norm.weight.data.mul_(1.1))
    keep(tmp_path / "bad.rec", KEPT["inputs and the first Cell"][0])
    report = judge(reference, tmp_path / "bad.rec")
    assert report.failed
    assert report.failing == ["blocks.0.norm"]


def test_every_form_of_the_report_says_it(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "part.rec")
    keep(tmp_path / "part.rec", KEPT["inputs and the first Cell"][0])
    outputs = [
        "--json",
        str(tmp_path / "r.json"),
        "--junit",
        str(tmp_path / "r.xml"),
        "--html",
        str(tmp_path / "r.html"),
    ]
    result = CliRunner().invoke(main, ["judge", str(reference), str(tmp_path / "part.rec"), *outputs])
    assert result.exit_code == 4, result.output
    written = json.loads((tmp_path / "r.json").read_text())
    assert (written["ok"], written["failing"]) == (False, [])
    assert "doesn't have the network's outputs" in written["not_known"]
    suite = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    (error,) = suite.findall(".//error")
    assert "parity is not known" in str(error.get("message"))
    assert "Parity is not known" in (tmp_path / "r.html").read_text()


def test_a_case_that_passes_is_no_error_for_ci(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "same.rec")
    xml = junit.to_xml(judge(reference, tmp_path / "same.rec"))
    assert (xml.get("errors"), xml.get("failures")) == ("0", "0")


def test_the_cells_that_were_chosen_are_all_that_is_asked_for(reference: Path, tmp_path: Path) -> None:
    record_elsewhere(tmp_path / "part.rec")
    keep(tmp_path / "part.rec", KEPT["inputs and the first Cell"][0])
    assert parity.judge(reference, tmp_path / "part.rec", only=["blocks.0.norm"]).ok


@pytest.mark.slow
def test_a_model_file_whose_recording_lacks_the_outputs_is_no_passing_test(tmp_path: Path) -> None:
    with Recorder(tmp_path / "part.rec") as recorder:
        recorder.cell("0", outputs=np.full((2, 3), 0.5, np.float32))
    (tmp_path / "parity_net.py").write_text(
        "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())\n"
        "for p in model.parameters(): torch.nn.init.constant_(p, 0.5)\n"
        "inputs = (torch.zeros(2, 3),)\nrecording = 'part.rec'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "parity_net.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "parity is not known: part.rec doesn't have the network's outputs" in done.stdout
    assert done.returncode == 1


def record_part(path: Path, grads: bool, kept: Callable[[Entry], bool]) -> None:
    module, x = make()
    with Recorder(path) as recorder, recorder.torch(module):
        if grads:
            loss(module(x.requires_grad_())).backward()
        else:
            with torch.no_grad():
                module(x)
    keep(path, kept)


PARTS: dict[str, tuple[bool, Callable[[Entry], bool], str]] = {
    "no gradient": (False, lambda entry: True, "part.rec has no gradients, so none were compared"),
    "the gradients of inputs alone": (
        True,
        lambda entry: not entry["role"].startswith("parameter"),
        "the gradients of 32 parameters, which weren't compared",
    ),
    "no gradient of the network's input": (
        True,
        lambda entry: (entry["role"], entry.get("cell")) != ("input_gradient", ""),
        "1 tensor of others, which weren't compared",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_gradients_that_one_side_lacks_are_said(reference: Path, tmp_path: Path, name: str) -> None:
    grads, kept, note = PARTS[name]
    record_part(tmp_path / "part.rec", grads, kept)
    report = judge(reference, tmp_path / "part.rec")
    assert report.ok, str(report)
    assert any(note in text for text in report.notes), report.notes


def record_values(path: Path, x: Any, y: Any, calls: int = 1) -> None:
    with Recorder(path) as recorder:
        for _ in range(calls):
            recorder.cell("", inputs=x, outputs=y)


@pytest.mark.parametrize("calls", [(2, 1), (1, 2)])
def test_other_numbers_of_calls_are_said(tmp_path: Path, calls: tuple[int, int]) -> None:
    x, y = np.ones(3, np.float32), np.full(2, 0.5, np.float32)
    for name, count in zip(("ref", "other"), calls, strict=True):
        record_values(tmp_path / name, x, y, count)
    report = judge(tmp_path / "ref", tmp_path / "other")
    assert any(f"calls in ref and in other differ: (root) ({calls[0]} and {calls[1]})" in note for note in report.notes)
    assert report.ok == (calls == (1, 2))
    assert not report.failed


def test_a_candidate_without_calls_is_refused(tmp_path: Path, reference: Path) -> None:
    with Recorder(tmp_path / "none"):
        pass
    result = CliRunner().invoke(main, ["judge", str(reference), str(tmp_path / "none")])
    assert result.exit_code == 2, result.output
    assert "none is empty: no tensor was recorded in it" in result.output


def test_nan_on_both_sides_is_no_pass(tmp_path: Path) -> None:
    x, y = np.ones(3, np.float32), np.array([np.nan, 0.5], np.float32)
    record_values(tmp_path / "ref", x, y)
    record_values(tmp_path / "other", x, y)
    result = CliRunner().invoke(main, ["judge", str(tmp_path / "ref"), str(tmp_path / "other")])
    assert result.exit_code == 2
    assert "contain NaN" in result.output


def test_nan_in_a_summary_on_both_sides_is_no_pass(tmp_path: Path) -> None:
    y = np.ones(5000, np.float32)
    y[4999] = np.nan
    for name in ("ref", "other"):
        with Recorder(tmp_path / name, budget=0) as recorder:
            recorder.cell("", outputs=y)
    report = judge(tmp_path / "ref", tmp_path / "other")
    assert not report.ok
    assert "NaN in the reference" in str(report)
