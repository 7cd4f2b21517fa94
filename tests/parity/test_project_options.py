"""Options in `[tool.parity]` of pyproject.toml."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main

MODEL = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
inputs = (torch.randn(4, 3),)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text: str, *arguments: str) -> tuple[Result, dict[str, object]]:
    Path("pyproject.toml").write_text(text)
    result = CliRunner().invoke(main, ["run", "net.py", "--json", "out.json", *arguments], catch_exceptions=False)
    return result, json.loads(Path("out.json").read_text()) if Path("out.json").exists() else {}


def test_options_are_those_of_the_command_line() -> None:
    _, report = run('[tool.parity]\nseed = 3\ntrain = true\n[tool.parity.run]\nskip = ["1"]\nno-grad = true\n')
    assert (report["seed"], report["train"], report["grads"]) == (3, True, False)
    statuses = {cell["path"]: cell["status"] for cell in report["cells"]}  # type: ignore[attr-defined]
    assert statuses["1"] == "skipped"


def test_the_command_line_comes_first() -> None:
    _, report = run("[tool.parity]\nseed = 3\ntrain = true\n", "--seed", "4", "--eval")
    assert (report["seed"], report["train"]) == (4, False)


def test_the_second_name_of_a_flag_is_known() -> None:
    _, report = run("[tool.parity]\neval = true\n")
    assert report["train"] is False


def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Result, object]:
    """Run in a folder below, and return the seed: 5 if the file was read."""
    (folder / "pyproject.toml").write_text("[tool.parity]\nseed = 5\n")
    monkeypatch.chdir(folder / "inside")
    result = CliRunner().invoke(main, ["run", "../net.py", "--json", "out.json"], catch_exceptions=False)
    return result, json.loads(Path("out.json").read_text())["seed"]


@pytest.mark.parametrize("git", ["folder", "file of a worktree"])
def test_the_file_of_a_folder_above_is_read_in_a_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch, git: str
) -> None:
    (folder / ".git").mkdir() if git == "folder" else (folder / ".git").write_text("gitdir: elsewhere")
    result, seed = inside(folder, monkeypatch)
    assert seed == 5
    assert result.stderr.startswith("from ../pyproject.toml: --seed=5\n")


def test_outside_a_repository_no_file_above_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert inside(folder, monkeypatch)[1] == 0


@pytest.mark.skipif(not hasattr(os, "chown") or os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("foreign", ["pyproject.toml", ".git", "."])
def test_files_of_another_user_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch, foreign: str) -> None:
    (folder / ".git").mkdir()
    (folder / "pyproject.toml").touch()
    os.chown(folder / foreign, 4321, 4321)
    result, seed = inside(folder, monkeypatch)
    assert seed == 0
    is_said = "pyproject.toml is ignored: it, or its folder, belongs to another user" in result.stderr
    assert is_said == (foreign == "pyproject.toml")


def test_another_user_reads_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1, raising=False)
    result, report = run("[tool.parity]\nseed = 5\n")
    assert report["seed"] == 0
    assert "belongs to another user" in result.stderr


def test_a_link_inside_the_project_is_followed(folder: Path) -> None:
    (folder / "inside" / "options.toml").write_text("[tool.parity]\nseed = 5\n")
    (folder / "pyproject.toml").symlink_to("inside/options.toml")
    result = CliRunner().invoke(main, ["run", "net.py", "--json", "out.json"], catch_exceptions=False)
    assert result.exit_code == 0
    assert json.loads(Path("out.json").read_text())["seed"] == 5


def test_inputs_of_the_project_are_read(folder: Path) -> None:
    CliRunner().invoke(main, ["export", "net.py", "-o", "net.onnx", "--no-check"], catch_exceptions=False)
    np.savez(folder / "inside" / "x.npz", input=np.ones((4, 3), np.float32))
    (folder / "pyproject.toml").write_text('[tool.parity]\ninputs = "inside/x.npz"\n')
    result = CliRunner().invoke(main, ["run", "net.onnx"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert f"--inputs={folder / 'inside' / 'x.npz'}" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.parity]\ntrian = true\n", "[tool.parity] has no option trian: did you mean train?"),
        ("[tool.parity.runn]\nseed = 1\n", "[tool.parity] has no command runn: did you mean run?"),
        ("[tool.parity.run]\nsteps = 1\n", "[tool.parity.run] has no option steps"),
        ("[tool.parity]\nno-grad = 1\n", "no-grad needs true or false, given 1"),
        ("[tool.parity]\nseed = true\n", "seed needs a value, not a flag, given True"),
        ("[tool.parity.run]\nonly = [[1]]\n", "only needs a list of strings"),
        ('[tool.parity]\nseed = "x"\n', "'x' is not a valid integer"),
        ("[tool\n", "pyproject.toml: "),
        ("[tool]\nparity = 3\n", "[tool.parity] must be a table of options"),
    ],
)
def test_a_wrong_option_is_one_message(text: str, message: str) -> None:
    result, report = run(text)
    assert result.exit_code == 2
    assert message in result.output
    assert not report


def test_a_project_without_options_changes_nothing() -> None:
    result, report = run("[project]\nname = 'x'\n[tool.other]\nx = 1\n")
    assert result.exit_code == 0
    assert report["seed"] == 0
