"""What weakens a verdict stands in the verdict, wherever it was given and wherever the verdict is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from click.testing import CliRunner

from cellbridge import parity
from cellbridge.parity.cli import main

BAR = "which replaces the computed bar"
MODEL = """
import torch
def model(): return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
inputs = (torch.linspace(-1, 1, 12).reshape(4, 3),)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--atol", "1e9"], f"within the tolerance atol=1e9 (given on the command line), {BAR}"),
        (["--rtol", "1e-3"], f"within the tolerance rtol=0.001 (given on the command line), {BAR}"),
        (
            ["--rtol", "0.5", "--atol", "1e-5"],
            f"within the tolerance rtol=0.5 and atol=1e-5 (given on the command line), {BAR}",
        ),
        (["--no-grad"], "without gradients (given on the command line)"),
        (["--skip", "1"], "without 1 of 3 Cells, which are left out (given on the command line)"),
        (["--only", "0"], "without 2 of 3 Cells, which are left out (given on the command line)"),
    ],
)
def test_every_view_names_them(arguments: list[str], words: str) -> None:
    files = ["--json", "o.json", "--junit", "o.xml", "--html", "o.html"]
    result = CliRunner().invoke(main, ["run", "net.py", *arguments, *files], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"Parity holds {words}:" in flat(result.stdout)
    assert json.loads(Path("o.json").read_text())["conditions"]["in_words"] == [words]
    suite = ElementTree.parse("o.xml").find(".//property[@name='verdict']")
    assert suite is not None
    assert f"Parity holds {words}:" in str(suite.get("value"))
    assert words in Path("o.html").read_text()


def test_a_verdict_without_conditions_names_none() -> None:
    result = CliRunner().invoke(main, ["run", "net.py", "--json", "o.json"], catch_exceptions=False)
    assert "Parity holds: interpreter" in flat(result.stdout)
    assert json.loads(Path("o.json").read_text())["conditions"]["in_words"] == []


@pytest.mark.parametrize(
    "command",
    [
        ["run", "net.py"],
        ["run", "net.py", "--train-steps", "2"],
        ["compare", "net.py", "other.py"],
        ["compare", "net.onnx", "net.onnx"],
        ["judge", "recorded", "recorded"],
        ["run", "net.py", "--against", "recorded"],
    ],
    ids=" ".join,
)
@pytest.mark.every(3)
def test_every_command_that_takes_a_tolerance_names_it(command: list[str]) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(main, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return flat(result.stdout)

    Path("other.py").write_text(MODEL)
    if "net.onnx" in command:
        run("export", "net.py", "-o", "net.onnx", "--no-check")
    if "recorded" in command:
        run("record", "net.py", "-o", "recorded")
    output = run(*command, "--atol", "1e9")
    assert f"arity holds within the tolerance atol=1e9 (given on the command line), {BAR}" in output


class Off(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


class Right(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


X = (torch.ones(2, 3),)


@pytest.mark.parametrize(
    "judge",
    [
        lambda: parity.check(Right(), X, atol=1e9),
        lambda: parity.compare(Right(), Off(), X, atol=1e9),
        lambda: parity.assert_parity(Right(), Off(), X, atol=1e9),
        lambda: parity.check_training(torch.nn.Linear(3, 2), X, steps=1, atol=1e9),
    ],
)
def test_a_tolerance_given_in_python_is_named(judge: Callable[[], object]) -> None:
    assert f"arity holds within the tolerance atol=1e9, {BAR}" in flat(str(judge()))


def test_the_network_is_the_same_within_the_tolerance_only() -> None:
    report = parity.compare(Right(), Off(), X, atol=1e9)
    assert report.network_verdict.sentence.startswith("the same function within the tolerance atol=1e9, by")
    assert "1.0× is the tolerance atol=1e9." in str(report)
    assert "within the tolerance atol=1e9" in repr(report)


def test_a_failure_names_the_tolerance_that_it_is_judged_by() -> None:
    text = flat(str(parity.compare(Right(), Off(), X, atol=1e-3)))
    assert f"Parity fails within the tolerance atol=0.001, {BAR}, in 1 Cell: (root)" in text


@pytest.mark.slow
def test_a_sweep_names_it() -> None:
    arguments = ["sweep", "net.py", "--junit", "o.xml", "--json", "o.json", "--", "--atol", "1e9"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    words = f"parity holds within the tolerance atol=1e9 (given on the command line), {BAR}"
    assert words in flat(result.output)
    assert json.loads(Path("o.json").read_text())["results"][0]["reason"] == words
    assert words in Path("o.xml").read_text()


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.every(2)
def test_further_inputs_that_a_file_leaves_out_are_named(value: str) -> None:
    Path("other.py").write_text(MODEL)
    Path("pyproject.toml").write_text(f"[tool.parity]\nno-probe = {value}\n")
    result = CliRunner().invoke(main, ["compare", "net.py", "net.py"], catch_exceptions=False)
    named = "Parity holds without further inputs (from pyproject.toml): candidate" in flat(result.stdout)
    assert named == (value == "true"), result.stdout
    asked = CliRunner().invoke(main, ["compare", "net.py", "net.py", "--no-probe"], catch_exceptions=False)
    assert "without further inputs" not in asked.stdout


def test_details_are_in_units_of_the_tolerance() -> None:
    report = parity.compare(Right(), Off(), X, atol=0.01)
    text = flat(str(report))
    assert "error 1, 100× the tolerance atol=0.01; up to 0.01 passes" in text
    assert "own rounding error" not in text
    assert "own rounding error" in flat(str(parity.compare(Right(), Off(), X)))
    training = parity.check_training(torch.nn.Linear(3, 2), X, steps=1, atol=1e9)
    assert "own rounding error" not in flat(str(training))
