"""`--repro` on the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.causes.reproduction import running
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import UsageError
from tests.parity.reports import cell, failing, report

pytestmark = pytest.mark.causes

MODEL = """
import torch
from cellbridge.runtime import nn

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
inputs = (torch.randn(2, 4),)

class Port(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 3)
        self.norm = nn.LayerNorm((3,), epsilon={eps})

    def construct(self, x):
        return self.norm(self.fc(x))

cell = Port
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(MODEL.format(eps=1e-3))
    Path("right.py").write_text(MODEL.format(eps=1e-5))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_a_failing_run_ends_with_the_commands_that_come_next() -> None:
    done = run("run", "net.py")
    assert done.exit_code == 1
    assert done.output.endswith(
        "\n\nto look at it: parity run net.py --html report.html\nto reproduce it: parity run net.py --repro repro\n"
    )
    assert max(map(len, done.output.splitlines())) <= 80


@pytest.mark.slow
def test_a_fault_is_reproduced_in_a_folder_of_its_own() -> None:
    """The script is run in a process of its own here, as it is for users."""
    done = run("run", "net.py", "--repro", "out", "--seed", "1")
    assert done.exit_code == 1
    assert done.output.endswith(
        "\n\nreproduced: 1 in out/1_1\n\nto look at it: parity run net.py --seed 1 --html report.html\n"
    )
    assert "layer_norm" in Path("out/1_1/repro.py").read_text()
    readme = Path("out/1_1/README.md").read_text()
    assert "torch 2." in readme
    assert "`eps is 0.001 in the candidate, 1e-05 in the reference`" in readme
    assert "\n    they differ\n" in readme
    done = run("run", "net.py", "--repro", "out")
    assert done.exit_code == 2
    assert "the folder isn't empty; give the name of a new folder" in done.output


def test_a_run_that_passes_writes_nothing() -> None:
    done = run("run", "right.py", "--repro", "out")
    assert done.exit_code == 0, done.output
    assert "repro" not in done.output
    assert not Path("out").exists()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = subprocess.CompletedProcess([], 0, "they agree\n", "")
    monkeypatch.setattr(running, "start", lambda script: agreed)
    done = run("run", "net.py", "--repro", "out")
    assert done.exit_code == 1
    assert "\nno reproduction for 1: both sides agree when they are run alone\n" in done.output
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repro", "net.py"], "MODEL and --repro are the same file"),
        (["--repro", "full"], "the folder isn't empty; give the name of a new folder"),
        (["--repro", "file"], "the name is taken by a file"),
        (["--repro", "absent/out"], "there is no folder"),
        (["--repro", "x" * 300], "File name too long"),
        (["--repro", "same", "--html", "same"], "are the same file"),
        (["--repro", "out", "--diagnose-seconds", "0"], "causes, which aren't looked for then"),
        (["--repro", "out", "--train-steps", "1"], "--train-steps can't be combined with --repro"),
    ],
)
def test_what_is_wrong_is_said_before_the_work(arguments: list[str], message: str) -> None:
    Path("net.py").write_text("raise SystemError('it was loaded')")
    Path("full").mkdir()
    Path("full/mine").write_text("")
    Path("file").write_text("")
    done = run("run", "net.py", *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert Path("full/mine").exists()
    assert {path.name for path in Path().iterdir()} == {"net.py", "right.py", "full", "file"}


def test_failures_of_which_nothing_is_kept() -> None:
    kinds = {
        "a": failing(feeding="end to end"),
        "b": failing(check="rounding"),
        "c": failing(),
    }
    made = report({"": "Net"}, *(cell(path, "Cell", comparison) for path, comparison in kinds.items()))
    written = made.write_repro("out")
    assert written.folders == {}
    assert all(written.missing.values())
    assert not Path("out").exists()
    Path("full").mkdir()
    Path("full/mine").write_text("")
    with pytest.raises(UsageError, match="isn't empty"):
        made.write_repro("full")
    with pytest.raises(UsageError, match="a NUL"):
        made.write_repro("a\0b")
