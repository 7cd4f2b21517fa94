"""`parity lock`, `parity check --lock` and `parity upgrade`."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.locks import snapshot
from cellbridge.parity.jobs.locks.lock_file import read_lock
from cellbridge.parity.sides.exported_side import ExportedSide
from cellbridge.parity.sides.records import OUTPUT, Records
from cellbridge.parity.sides.run import Run

MODEL = """
import os
import torch

def model():
    norm = torch.nn.LayerNorm(4, eps=float(os.environ.get("EPS", "1e-5")))
    return torch.nn.Sequential(torch.nn.Linear(3, 4), norm, torch.nn.Linear(4, 2))

def inputs():
    return (torch.randn(5, 3),)
"""


def parity(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EPS", raising=False)
    return tmp_path


def test_a_lock_holds_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parity("lock", "net.py").exit_code == 0
    same = parity("check", "--lock")
    assert same.exit_code == 0
    assert "every Cell computes the same bits" in same.output
    monkeypatch.setenv("EPS", "1.1e-5")
    changed = parity("check", "--lock", "--json", "report.json")
    assert changed.exit_code == 1
    assert "its eps was 1e-05, and is 1.1e-05" in changed.output
    assert json.loads(Path("report.json").read_text())["failing"] == ["1"]


def test_several_models_share_a_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.py").write_text(MODEL.replace("EPS", "OTHER"))
    assert parity("lock", "net.py", "other.py", "-o", "both.lock", "--no-grad").exit_code == 0
    monkeypatch.setenv("OTHER", "1e-3")
    result = parity("check", "--lock", "both.lock")
    assert result.exit_code == 1
    assert "1 of 2: net.py" in result.output
    assert "2 of 2: other.py" in result.output


def test_a_lock_is_the_same_text_each_time() -> None:
    parity("lock", "net.py", "-o", "a.lock")
    parity("lock", "net.py", "-o", "b.lock")
    assert Path("a.lock").read_text() == Path("b.lock").read_text()


def test_a_check_needs_no_option() -> None:
    lock_result = parity("lock", "net.py")
    assert "to compare: parity check\n" in lock_result.output
    assert parity("check").exit_code == 0
    lock_result = parity("lock", "net.py", "-o", "other.lock")
    assert "to compare: parity check --lock other.lock\n" in lock_result.output
    Path("parity.lock").unlink()
    for arguments in (["check"], ["check", "--lock"]):
        result = parity(*arguments)
        assert result.exit_code == 2
        assert "there is no lock file parity.lock" in result.output
        assert "parity lock MODEL writes it" in result.output


def test_a_named_model_that_is_not_locked_is_said() -> None:
    parity("lock", "net.py")
    assert parity("check", "net.py").exit_code == 0
    result = parity("check", "nett.py")
    assert result.exit_code == 2
    assert result.output == "error: parity.lock has no model nett.py: it has net.py\n"
    result = parity("check", "parity.lock")
    assert result.exit_code == 2
    assert "what to do: to read another lock file: parity check --lock FILE" in result.output


def test_a_model_that_is_given_as_the_lock_is_said() -> None:
    parity("lock", "net.py")
    result = parity("check", "--lock", "net.py")
    assert result.exit_code == 2
    assert result.output == (
        "error: --lock takes a lock file, given the model net.py\n  what to do: parity check net.py\n"
    )


def _damage(data: dict[str, Any], what: str) -> str:
    model = data["models"][0]
    if what == "version":
        data["version"] = 99
    elif what == "format":
        data["format"] = "other"
    elif what == "field":
        del model["tensors"]
    elif what == "number":
        model["sketches"][next(iter(model["sketches"]))] = ["__import__('os')"]
    elif what == "size":
        model["sketches"][next(iter(model["sketches"]))] = [0.0] * 1000
    elif what == "type":
        model["calls"][0]["parent"] = "x"
    elif what == "dtype":
        model["dtype"] = "__class__"
    elif what == "role":
        model["tensors"][0][3] = "something"
    elif what == "integer":
        model["sketches"][next(iter(model["sketches"]))] = [2**100] * 8
    elif what == "shape":
        model["tensors"][0][6] = [2**50, 2**50]
    elif what == "parent":
        model["calls"][0]["parent"] = 10**9
    return json.dumps(data)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "what", ["version", "format", "field", "number", "size", "type", "dtype", "role", "parent", "integer", "shape"]
)
def test_a_damaged_lock_is_one_message(what: str) -> None:
    parity("lock", "net.py")
    Path("parity.lock").write_text(_damage(json.loads(Path("parity.lock").read_text()), what))
    result = parity("check", "--lock")
    assert result.exit_code == 2, result.output
    assert result.output.startswith("error: ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\0", '{"format": "cellbridge-lock", "version": 1}'])
def test_what_is_no_lock_is_one_message(text: str) -> None:
    Path("parity.lock").write_text(text)
    result = parity("check", "--lock")
    assert result.exit_code == 2
    assert "error: parity.lock is" in result.output


def test_a_lock_that_cannot_be_written_costs_nothing(folder: Path) -> None:
    Path("parity.lock").write_text("old")
    (folder / "net.py").write_text("raise ValueError('broken')")
    assert parity("lock", "net.py").exit_code == 2
    assert Path("parity.lock").read_text() == "old"


def test_versions_are_those_of_the_libraries_in_use() -> None:
    parity("lock", "net.py")
    assert {"python", "numpy", "torch"} <= read_lock("parity.lock").versions.keys()


def _python(folder: Path, line: str) -> str:
    """Return a Python whose environment is another one."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\n{line}exec "{sys.executable}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


@pytest.mark.slow
@pytest.mark.causes
def test_an_upgrade_that_changes_a_cell_is_found_with_its_cause(folder: Path) -> None:
    result = parity("upgrade", "net.py", "--python", _python(folder, "export EPS=1e-3\n"))
    assert result.exit_code == 1, result.output
    assert "✗ 1  LayerNorm" in result.output
    assert "eps" in result.output


@pytest.mark.slow
def test_an_upgrade_that_changes_nothing_passes(folder: Path) -> None:
    result = parity("upgrade", "net.py", "--python", _python(folder, ""), "--no-grad")
    assert result.exit_code == 0, result.output


def test_an_environment_without_the_command_is_said(folder: Path) -> None:
    result = parity("upgrade", "net.py", "--python", _python(folder, f'exec "{sys.executable}" -S "$@"\n'))
    assert result.exit_code == 2
    assert "cellbridge isn't installed" in result.output


def test_an_error_in_the_other_environment_is_shown(folder: Path) -> None:
    result = parity("upgrade", "net.py", "--python", _python(folder, "export EPS=x\n"))
    assert result.exit_code == 2
    assert "couldn't record the model (exit code 2)" in result.output
    assert "could not convert string to float: 'x'" in result.output


def test_a_python_that_is_not_there_is_said() -> None:
    result = parity("upgrade", "net.py", "--python", os.devnull)
    assert result.exit_code == 2
    assert "there is no program" in result.output


class OtherRuntime(ExportedSide):
    """ONNX Runtime with a kernel of layer norm that is less precise."""

    def run(self, run: Run) -> Records:
        records = super().run(run)
        records.values = {
            key: array + np.float32(1e-4) if (key.path, key.kind) == ("1", OUTPUT) else array
            for key, array in records.values.items()
        }
        return records


def test_a_change_of_onnx_runtime_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parity("lock", "net.py", "--onnxruntime").exit_code == 0
    assert [locked_snapshot.side for locked_snapshot in read_lock("parity.lock").snapshots] == ["torch", "onnxruntime"]
    assert parity("check", "--lock").exit_code == 0
    monkeypatch.setattr(snapshot, "ExportedSide", OtherRuntime)
    result = parity("check", "--lock")
    assert result.exit_code == 1
    assert "✓ net.py: Parity holds" in result.output
    assert "✗ net.py in onnxruntime: Parity fails in 1 Cell: 1" in result.output


def test_rounding_errors_are_locked_in_units_in_the_last_place() -> None:
    assert "the largest rounding error is" in parity("lock", "net.py").output
    (locked_snapshot,) = read_lock("parity.lock").snapshots
    assert all(parts.error is not None and 0 < parts.error < 10 for parts in locked_snapshot.cells.values())
    assert parity("lock", "net.py", "--dtype", "bfloat16").exit_code == 0
    (half,) = read_lock("parity.lock").snapshots
    assert all(parts.error is not None and 0 < parts.error < 10 for parts in half.cells.values())
