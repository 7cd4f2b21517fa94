"""Model files that name a recording, on the command line and in pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.recorder import Recorder

MODEL = """
import torch

recording = "candidate.rec"

def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))

def inputs():
    return (torch.arange(15.0).reshape(5, 3),)
"""


def write(folder: Path, eps: float) -> None:
    (folder / "parity_net.py").write_text(MODEL)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4, eps=eps), torch.nn.Linear(4, 2)).eval()
    x = torch.arange(15.0).reshape(5, 3).requires_grad_()
    with Recorder(folder / "candidate.rec") as recorder, recorder.torch(net):
        net(x).square().sum().backward()


def test_parity_run_compares_with_it(tmp_path: Path) -> None:
    write(tmp_path, 1e-5)
    result = CliRunner().invoke(main, ["run", str(tmp_path / "parity_net.py")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "candidate.rec (outputs and gradients) agrees with torch" in result.output
    refused = CliRunner().invoke(main, ["run", str(tmp_path / "parity_net.py"), "--round-trip"])
    assert refused.exit_code == 2
    assert "names a recording" in refused.output


@pytest.mark.slow
def test_pytest_has_an_item_for_each_cell(tmp_path: Path) -> None:
    write(tmp_path, 1e-2)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "parity_net.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "FAILED parity_net.py::1[candidate.rec]" in done.stdout
