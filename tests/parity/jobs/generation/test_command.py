"""`parity generate` on model files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main

STREAM = """
import torch

class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x, state=None):
        y = self.linear(x).cumsum(1) + (0 if state is None else state)
        return y, y[:, -1:]

model = Sum
def decode(module, x, state):
    return module(x, STATE)
inputs = (torch.randn(2, 8, 3),)
"""


def generate(tmp_path: Path, text: str, *options: str) -> Result:
    (tmp_path / "net.py").write_text(text)
    return CliRunner().invoke(main, ["generate", str(tmp_path / "net.py"), *options], catch_exceptions=False)


def test_a_stream_that_keeps_its_state_passes(tmp_path: Path) -> None:
    result = generate(tmp_path, STREAM.replace("STATE", "state"), "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["reference"] == "uncached"
    assert report["likelihoods"] == []


def test_a_stream_that_loses_its_state_fails(tmp_path: Path) -> None:
    result = generate(tmp_path, STREAM.replace("STATE", "None"), "--html", str(tmp_path / "out.html"))
    assert result.exit_code == 1
    assert "output logits" in result.output
    assert (tmp_path / "out.html").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\nmodel = torch.nn.Linear(2, 2)\ninputs = (torch.ones(1, 3, 2),)\n", "define decode"),
        ("import torch\nmodel = torch.nn.Linear(2, 2)\ninputs = (torch.ones(3),)\n", "needed a prompt"),
        (STREAM.replace("STATE", "1 / 0"), "ZeroDivisionError"),
        (STREAM.replace("return module(x, STATE)", "return module(x)[0]"), "must return the outputs and the new state"),
        (STREAM.replace("return y, y", "return y.sum(), y"), "must return outputs for each position"),
    ],
)
def test_bad_files_are_one_message(tmp_path: Path, text: str, message: str) -> None:
    result = generate(tmp_path, text)
    assert result.exit_code == 2, result.output
    assert message in result.output


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    result = generate(tmp_path, STREAM.replace("STATE", "state"), "--logprobs", str(tmp_path / "none.npz"))
    assert result.exit_code == 2
    assert "no such file" in result.output
