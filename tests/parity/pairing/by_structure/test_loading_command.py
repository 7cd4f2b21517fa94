"""`parity compare` with --load-weights, --map and --write-map."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main

REFERENCE = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))

def inputs():
    return (torch.linspace(-1, 1, 24).reshape(6, 4),)
"""
CANDIDATE = """
import torch
from torch import nn

class Port(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 6))
        self.bias = nn.Parameter(torch.randn(6))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(x @ self.kernel + self.bias))

def model():
    torch.manual_seed(5)
    return Port()
"""


@pytest.fixture
def compared(tmp_path: Path):  # type: ignore[no-untyped-def]
    (tmp_path / "there.py").write_text(REFERENCE)
    (tmp_path / "here.py").write_text(CANDIDATE)

    def run(*options: str) -> Result:
        words = [
            "compare",
            str(tmp_path / "there.py"),
            str(tmp_path / "here.py"),
            "--no-probe",
            "--diagnose-seconds",
            "0",
        ]
        return CliRunner().invoke(main, [*words, *options])

    return run


def test_weights_are_loaded_and_the_map_is_used_again(compared, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = str(tmp_path / "map.toml")
    result = compared("--load-weights", "--write-map", path)
    assert result.exit_code == 0, result.output
    assert "4 of 4 parameters were loaded by structure" in " ".join(result.output.split())
    assert compared("--map", path).exit_code == 0
    second_run = compared("--load-weights", "--write-map", path)
    assert second_run.exit_code == 2
    assert "somebody may have edited" in second_run.output
    text = Path(path).read_text()
    Path(path).write_text(text.replace('"0.bias" = "bias"', '"2.bias" = "bias"').replace('"2.bias" = "head.bias"', ""))
    wrong = compared("--map", path)
    assert wrong.exit_code == 2
    assert f"{path}: 'bias': the candidate's has shape [6], and the line makes [3]" in " ".join(wrong.output.split())


def test_a_map_that_makes_nothing_is_refused_with_the_way_to_find_one(compared, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "map.toml"
    path.write_text('"*.bias" = { drop = true }\n')
    result = compared("--map", str(path))
    assert result.exit_code == 2
    text = " ".join(result.output.split())
    assert f"{path}: no line makes a tensor of the candidate" in text
    assert "--load-weights --write-map FILE" in text


def test_without_weights_the_report_offers_them(compared) -> None:  # type: ignore[no-untyped-def]
    result = compared()
    assert result.exit_code == 1
    assert "--load-weights brings them in" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--load-weights", "--map", "map.toml"], "can't be combined with --map"),
        (["--write-map", "map.toml"], "--write-map needs --load-weights"),
        (["--map", "missing.toml"], "can't read the map missing.toml"),
    ],
)
def test_wrong_use(compared, options: list[str], message: str) -> None:  # type: ignore[no-untyped-def]
    result = compared(*options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
