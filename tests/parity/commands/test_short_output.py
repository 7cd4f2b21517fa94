"""`-q`, which prints the verdict and the first cause alone, and what shells ask to complete a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main

MODEL = """
import torch
def model(): return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU(APPROXIMATE))
def inputs(): return (torch.randn(2, 4),)
"""


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(MODEL.replace("APPROXIMATE", ""))
    Path("port.py").write_text(MODEL.replace("APPROXIMATE", "'tanh'"))


@pytest.mark.causes
def test_a_failure_has_its_verdict_and_its_cause() -> None:
    result = CliRunner().invoke(main, ["compare", "-q", "net.py", "port.py", "--no-probe"])
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "✗ Parity fails in 1 Cell: 1",
        "  1: approximate is 'tanh' in the candidate, 'none' in the reference",
    ]


def test_what_holds_has_its_verdict() -> None:
    result = CliRunner().invoke(main, ["run", "-q", "net.py", "--no-probe"])
    assert result.exit_code == 0
    (verdict,) = " ".join(result.stdout.split()).split("\n")
    assert verdict.startswith("✓ Parity holds: interpreter")
    assert verdict.endswith("agree with torch in 3 Cells")


def test_a_shell_completes_commands_and_options() -> None:
    def completions(words: str, number: int) -> str:
        asked = {"_PARITY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        command = [str(Path(sys.executable).parent / "parity")]
        done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
        return done.stdout

    assert "plain,compare\n" in completions("parity comp", 1)
    assert "plain,--no-grad\n" in completions("parity run --no-", 2)
