"""The command line with outputs without a reader, other encodings, and names that the system refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cellbridge.converter import to_onnx
from cellbridge.parity.cli import main
from tests.converter.programs import two_cells

PARITY = "import sys; from cellbridge.parity.cli import main; sys.argv[0] = 'parity'; main()"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    to_onnx(two_cells(), tmp_path / "m.onnx")
    return tmp_path


def parity(*arguments: Any, shell: str = '"$@"', **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a shell, where `"$@"` stands for it."""
    command = ["bash", "-c", f"set -o pipefail; {shell}", "bash", sys.executable, "-c", PARITY, *arguments]
    return subprocess.run(command, capture_output=True, env=os.environ | environment, timeout=120, check=False)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["inspect", "m.onnx", "--ir"], ["inspect", "m.onnx"]]
)
@pytest.mark.every(3)
def test_who_does_not_read_on_gets_no_verdict(folder: Path, arguments: list[str]) -> None:
    """Neither 1, which is "parity fails", nor 70 and a traceback."""
    done = parity(*arguments, shell='{ sleep 0.1; "$@"; } | true')
    assert done.returncode == 141
    assert done.stderr == b""


def test_a_closed_stdout_is_no_failure(folder: Path) -> None:
    done = parity("inspect", "m.onnx", shell='"$@" >&-')
    assert (done.returncode, done.stderr) == (0, b"")
    done = parity("inspect", "absent.onnx", shell='"$@" >&- 2>&-')
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "m.onnx"]])
@pytest.mark.every(2)
def test_an_output_that_can_not_be_written_is_one_message(folder: Path, arguments: list[str]) -> None:
    done = parity(*arguments, shell='"$@" >/dev/full')
    assert done.returncode == 2
    assert done.stderr.lower() == b"error: can't write the output: no space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_costs_no_verdict(folder: Path) -> None:
    """The verdict is printed and is the exit code, the other files are written, and a line says which isn't."""
    (folder / "net.py").write_text("import torch\nmodel = torch.nn.Linear(3, 2)\ninputs = (torch.randn(2, 3),)\n")
    result = CliRunner().invoke(main, ["run", "net.py", "--json", "/dev/full", "--junit", "report.xml"])
    assert result.exit_code == 0
    assert "Parity holds" in result.stdout
    assert "not written: can't write /dev/full: No space left on device" in result.stderr
    assert (folder / "report.xml").exists()
    result = CliRunner().invoke(main, ["export", "net.py", "-o", "net.onnx", "--html", "/dev/full"])
    assert result.exit_code == 0
    assert "Parity holds" in result.stdout
    assert "not written: can't write /dev/full: No space left on device" in result.stderr
    assert (folder / "net.onnx").exists()


def test_an_encoding_without_the_characters(folder: Path) -> None:
    done = parity("inspect", "m.onnx", PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"|- " in done.stdout


LONG = "n" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", f"{LONG}.onnx"],
        ["run", f"{LONG}.py"],
        ["inspect", f"{LONG}.onnx"],
        ["export", f"{LONG}.py", "-o", "o.onnx"],
        ["export", "net.py", "-o", f"{LONG}.onnx"],
        ["compare", "m.onnx", f"{LONG}.onnx"],
        ["run", "m.onnx", "--inputs", LONG],
        ["run", "m.onnx", "--json", LONG],
        ["run", "m.onnx", "--junit", f"{LONG}/report.xml"],
        ["weights", f"{LONG}.pt", "-o", "x.ckpt"],
        ["weights", "x.ckpt", "-o", f"{LONG}.pt"],
        ["weights", "x.ckpt", "-o", "x.pt", "--map", LONG],
        ["run", "folder.onnx"],
        ["run", "folder.py"],
        ["inspect", "folder.onnx"],
        ["compare", "folder.onnx", "m.onnx"],
        ["run", "m.onnx", "--inputs", "folder.onnx"],
        ["run", "m.onnx", "--json", "folder.py"],
        ["weights", "folder.pt", "-o", "x.ckpt"],
        ["weights", "folder.ckpt", "-o", "x.pt"],
        ["run", "m.onnx", "--json", "absent/report.json"],
        ["export", "net.py", "-o", "absent/o.onnx"],
        ["run", "m.onnx", "--json", "m.onnx/report.json"],
        ["run", "loop.onnx"],
    ],
    ids=lambda arguments: " ".join(arguments).replace(LONG, "LONG"),
)
def test_a_path_that_can_not_be_used_is_one_message(folder: Path, arguments: list[str]) -> None:
    for name in ("folder.onnx", "folder.py", "folder.pt", "folder.ckpt"):
        (folder / name).mkdir()
    (folder / "net.py").write_text("raise AssertionError('not loaded')")
    (folder / "x.ckpt").write_bytes(b"")
    (folder / "loop.onnx").symlink_to("loop.onnx")
    before = sorted(os.listdir(folder))
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.lower().startswith("error: ")
    assert "bug in parity" not in result.stderr
    assert sorted(os.listdir(folder)) == before


def test_a_name_that_is_not_utf_8(folder: Path) -> None:
    name = os.fsdecode(b"m\xff.onnx")
    (folder / "m.onnx").rename(name)
    done = parity("inspect", name)
    assert done.returncode == 0, done.stderr
    result = CliRunner().invoke(main, ["run", name, "--json", os.fsdecode(b"r\xff.json")])
    assert result.exit_code == 2
    assert r"m\udcff.onnx: its name isn't UTF-8" in result.stderr
    done = parity("inspect", os.fsdecode(b"absent\xff\x1b[2J.onnx"))
    assert done.returncode == 2
    assert rb"absent\udcff\x1b[2J.onnx" in done.stderr
