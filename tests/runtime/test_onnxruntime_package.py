"""A second package that overwrote or removed the files of onnxruntime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cellbridge.runtime import onnxruntime_package
from cellbridge.runtime.compiled import session
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.onnxruntime_package import conflict_hint, installed_packages, require_intact


def environment(folder: Path, *distributions: str) -> Path:
    """A folder for `sys.path` with metadata of these distributions, and of onnxruntime what an uninstall leaves."""
    for name in distributions:
        info = folder / f"{name.replace('-', '_')}-1.31.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.31.0\n")
    (folder / "onnxruntime" / "capi").mkdir(parents=True)
    return folder


def message_of(folder: Path) -> str:
    code = "from cellbridge import runtime\nruntime.compile\n"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )
    return done.stderr


def test_what_is_installed_is_whole() -> None:
    require_intact()
    assert len(installed_packages()) == 1
    assert conflict_hint() == ""


def test_two_packages_and_lost_files_are_told_with_the_way_out(tmp_path: Path) -> None:
    empty = environment(tmp_path, "onnxruntime", "onnxruntime-gpu")
    (empty / "onnxruntime" / "__init__.py").touch()
    message = message_of(empty)
    assert "UsageError: ONNX Runtime can't be used: it has no InferenceSession" in message
    assert "onnxruntime and onnxruntime-gpu are installed together" in message
    assert "pip uninstall -y onnxruntime onnxruntime-gpu, then pip install onnxruntime-gpu" in message


def test_a_package_that_cannot_be_imported(tmp_path: Path) -> None:
    broken = environment(tmp_path, "onnxruntime")
    (broken / "onnxruntime" / "__init__.py").write_text("from onnxruntime.capi import _pybind_state")
    assert "ONNX Runtime can't be used: cannot import name '_pybind_state'" in message_of(broken)


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        ([], "it isn't installed; pip install onnxruntime-gpu (or onnxruntime, for the CPU only)"),
        (["onnxruntime"], "files of onnxruntime are missing"),
        (["onnxruntime-gpu"], "then pip install onnxruntime-gpu"),
    ],
)
def test_the_reason_is_that_of_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, packages: list[str], words: str
) -> None:
    monkeypatch.setattr(onnxruntime_package, "installed_packages", lambda: packages)
    with pytest.raises(UsageError) as raised:
        require_intact("no_such_onnxruntime")
    assert words in str(raised.value)
    assert "No module named 'no_such_onnxruntime'" in str(raised.value)


def test_without_a_driver_cuda_is_refused_before_its_libraries_are_loaded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "has_driver", lambda: False)
    monkeypatch.setattr(session.ort, "InferenceSession", lambda *_, **__: pytest.fail("a session was made"))
    assert session.best_provider.__wrapped__() == "cpu"
    with pytest.raises(UsageError, match="can't use provider 'cuda' on this machine"):
        session.Session("model.onnx", "cuda")
    assert capfd.readouterr() == ("", "")
