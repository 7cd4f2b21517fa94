"""Recordings that are damaged, hostile or of another kind: one message each, and nothing is run or read elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.recorder import Recorder
from cellbridge.runtime import nn
from cellbridge.runtime.errors import UsageError
from tests.parity.checking.recordings.networks import record_reference

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    record_reference(tmp_path / "ref.rec")
    return tmp_path / "ref.rec"


def rewrite(recording: Path, change: Change) -> None:
    index = json.loads((recording / "recording.json").read_text())
    change(index)
    (recording / "recording.json").write_text(json.dumps(index))


def set_of_tensor(**fields: Any) -> Change:
    return lambda index: index["tensors"][-1].update(fields)


def claim_absent_gradient(*shape: int) -> Change:
    """An input's gradient that never arrived, of a shape that nothing on the disk has."""

    def change(index: dict[str, Any]) -> None:
        for entry in [entry for entry in index["tensors"] if entry["role"] == "input_gradient"][:1]:
            for name in ("file", "key", "sha256"):
                entry.pop(name, None)
            entry.update(absent=True, shape=list(shape))

    return change


CHANGES: dict[str, tuple[Change, str]] = {
    "another version": (lambda index: index.update(version=2), "has version 2 of the format; this release reads"),
    "another format": (lambda index: index.update(format="zip"), "isn't the index of a recording"),
    "a path in a file name": (set_of_tensor(file="../../etc/passwd.safetensors"), "without a path"),
    "an absolute file name": (set_of_tensor(file="/etc/hosts.safetensors"), "without a path"),
    "a missing file": (set_of_tensor(file="tensors-99999.safetensors"), "lacks the file tensors-99999.safetensors"),
    "a missing tensor": (set_of_tensor(key="nothing"), "has no tensor nothing, which the index names"),
    "a wrong checksum": (set_of_tensor(sha256="0" * 64), "is damaged: the checksum of"),
    "another shape": (set_of_tensor(shape=[3, 3, 3]), r"the index says float64 \[3, 3, 3\]|float32 \[3, 3, 3\]"),
    "a negative size": (set_of_tensor(shape=[-1]), "shape: needed a list of sizes"),
    "a size too large": (set_of_tensor(shape=[2**40, 2**40]), "that a disk can hold"),
    "an absent gradient of 2^44 elements": (claim_absent_gradient(2**22, 2**22), "is said to have 17592186044416 elem"),
    "an unknown role": (set_of_tensor(role="__class__"), "role: needed one of input, output"),
    "an unknown dtype": (set_of_tensor(dtype="object"), "dtype: needed one of bool"),
    "no shape": (lambda index: index["tensors"][0].pop("shape"), "shape: needed a list"),
    "a tensor twice": (lambda index: index["tensors"].append(index["tensors"][0]), "is recorded twice"),
    "no list": (lambda index: index.update(tensors={}), "tensors: needed a list"),
    "a text for a tensor": (lambda index: index["tensors"].append("x"), "needed an object, given 'x'"),
    "a parent that comes later": (lambda index: index["calls"][0].update(parent=5), "must be an earlier call"),
    "neither file nor summary": (set_of_tensor(file=""), "needed a file and a key, or a summary"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.every(12)
def test_an_index_that_is_wrong_is_refused(recording: Path, name: str) -> None:
    change, message = CHANGES[name]
    rewrite(recording, change)
    with pytest.raises(UsageError, match=message):
        parity.judge(recording, recording)


def test_an_absent_gradient_of_a_size_that_is_on_the_disk_is_judged(recording: Path) -> None:
    rewrite(recording, claim_absent_gradient(2, 3))
    assert parity.judge(recording, recording).cells


def test_a_truncated_file_is_refused(recording: Path) -> None:
    file = recording / "tensors-00000.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UsageError, match="is truncated or damaged"):
        parity.judge(recording, recording)


def test_a_changed_number_is_found_by_its_checksum(recording: Path) -> None:
    file = recording / "tensors-00000.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(UsageError, match="is damaged: the checksum of"):
        parity.judge(recording, recording)


@pytest.mark.parametrize(("text", "message"), [("{", "isn't JSON"), ("[]", "isn't the index"), ("\0", "isn't JSON")])
@pytest.mark.every(3)
def test_an_index_that_is_no_json_object_is_refused(recording: Path, text: str, message: str) -> None:
    (recording / "recording.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        parity.judge(recording, recording)


def test_places_without_a_recording_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("none", "isn't there"),
        ("file", "a recording is a folder, given the file"),
        ("empty", "neither recording.json nor .npy"),
    ):
        with pytest.raises(UsageError, match=message):
            parity.judge(tmp_path / name, tmp_path / name)


def test_names_that_are_hostile_are_data(tmp_path: Path) -> None:
    evil = "\x1b[31m{0.__class__}/../../x\n"
    for name in ("a", "b"):
        with Recorder(tmp_path / name) as recorder:
            recorder.cell(evil, inputs={evil: np.ones(3, np.float32)}, outputs={evil: np.ones(2, np.float32)})
            recorder.cell("", inputs=np.ones(3, np.float32), outputs=np.ones(2, np.float32))
    report = parity.judge(tmp_path / "a", tmp_path / "b")
    assert report.ok
    assert "\x1b" not in str(report)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_arrays_with_names_that_say_nothing_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(UsageError, match=r"the name of the file must be CELL/ROLE\.NAME\.npy"):
        parity.judge(tmp_path, tmp_path)


def test_arrays_of_objects_are_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "output.0.npy", np.array([print], object), allow_pickle=True)
    with pytest.raises(UsageError, match="isn't an array of numbers"):
        parity.judge(tmp_path, tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["recording.json", "tensors-00007.safetensors", "output.0.npy"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="isn't a regular file"):
        parity.judge(tmp_path, tmp_path)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def test_the_commands_record_and_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("import torch\nmodel = torch.nn.Linear(3, 2)\ninputs = (torch.randn(4, 3),)\n")
    recorded = command("record", "net.py", "-o", "a.rec")
    assert recorded.exit_code == 0, recorded.output
    assert "recorded 16 tensors" in recorded.output
    assert command("record", "net.py", "-o", "b.rec", "--budget", "100B", "--no-float64").exit_code == 0
    judged = command("judge", "a.rec", "b.rec", "--json", "report.json")
    assert judged.exit_code == 0, judged.output
    assert "b.rec (outputs and gradients) agrees with a.rec" in judged.output
    assert json.loads(Path("report.json").read_text())["ok"]


def test_the_commands_refuse_what_they_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text("import torch\nmodel = torch.nn.Linear(3, 2)\ninputs = (torch.randn(4, 3),)\n")
    Path("full").mkdir()
    Path("full/file").touch()
    for arguments, message in (
        (("record", "net.py", "-o", "full"), "the folder isn't empty"),
        (("record", "net.py", "-o", "x/y"), "there is no folder"),
        (("record", "net.py", "-o", "new", "--budget", "much"), "needed a size such as 500MB or 4GB"),
        (("record", "net.py", "-o", "new", "--only", "zzz"), "no Cell is left by"),
        (("judge", "a", "b"), "a recording is a folder, given a, which isn't there"),
    ):
        result = command(*arguments)
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("given", "words"), [(nn.Dense(3, 2), "Dense"), ("net.onnx", "net.onnx, which isn't there"), (None, "NoneType")]
)
def test_only_a_torch_module_is_recorded(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"a torch module is recorded, given {words}\n"):
        parity.record(given, (np.ones((1, 3)),), tmp_path / "it.rec")


def test_only_recordings_are_judged(recording: Path) -> None:
    with pytest.raises(UsageError, match="needed the folder of a recording, given Dense\n"):
        parity.judge(recording, nn.Dense(3, 2))  # type: ignore[arg-type]
