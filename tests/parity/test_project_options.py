"""Options in `[tool.parity]` of pyproject.toml."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_the_file_of_a_folder_above_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text("[tool.parity]\nseed = 5\n")
    monkeypatch.chdir(folder / "inside")
    CliRunner().invoke(main, ["run", "../net.py", "--json", "out.json"], catch_exceptions=False)
    assert json.loads(Path("out.json").read_text())["seed"] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.parity]\ntrian = true\n", "[tool.parity] has no option trian: did you mean train?"),
        ("[tool.parity.runn]\nseed = 1\n", "[tool.parity] has no command runn: did you mean run?"),
        ("[tool.parity.run]\nsteps = 1\n", "[tool.parity.run] has no option steps"),
        ("[tool.parity]\nno-grad = 1\n", "no-grad needs true or false, given 1"),
        ("[tool.parity]\nseed = true\n", "seed needs a value, not a flag, given True"),
        ("[tool.parity.run]\nonly = [[1]]\n", "only needs a list of texts"),
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
