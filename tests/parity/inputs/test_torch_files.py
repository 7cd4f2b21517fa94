"""Programs of torch.export on the command line: a `.pt2` file, and model files that return one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.sweeping.finding import find_models

MODEL = """
import torch
x = torch.arange(12.0).reshape(3, 4)
def model():
    torch.manual_seed(1)
    exported = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (x,))
    return exported{}
def inputs():
    return (x,)
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`net.pt2`, with open sizes, and one of another weight."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    for name in ("net.pt2", "other.pt2"):
        shapes = ({0: torch.export.Dim("rows")},)
        torch.export.save(torch.export.export(module, (torch.randn(3, 4),), dynamic_shapes=shapes), name)
        module[0].weight.data[1, 1] += 0.1
    for name, ending in (("program.py", ""), ("module.py", ".module()")):
        Path(name).write_text(MODEL.format(ending))


def parity(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.mark.parametrize(
    "commands",
    [
        ["run net.pt2 --no-probe"],
        ["run program.py --no-probe"],
        ["run module.py --no-probe"],
        ["run net.pt2 --train-steps 1"],
        ["export net.pt2 -o net.onnx --no-probe", "compare net.pt2 net.onnx --no-probe"],
        ["export net.pt2 -o net.onnx --no-check", "inspect net.pt2"],
        ["compare net.pt2 net.pt2"],
        ["record net.pt2 -o net.rec", "run net.pt2 --against net.rec"],
        ["lock net.pt2", "check --lock"],
    ],
)
@pytest.mark.every(6)
def test_commands_take_exported_programs(commands: list[str]) -> None:
    for command in commands:
        result = parity(*command.split())
        assert result.exit_code == 0, result.output


def test_a_sweep_finds_them_in_a_folder() -> None:
    assert {Path(model).name for model in find_models(["."])} == {"module.py", "net.pt2", "other.pt2", "program.py"}


def test_other_weights_fail_in_their_cell() -> None:
    result = parity("compare", "net.pt2", "other.pt2", "--no-probe")
    assert result.exit_code == 1
    assert "✗ 0 " in result.output


@pytest.mark.parametrize("data", [b"", b"text", None])
def test_what_is_no_program_is_one_message(data: bytes | None) -> None:
    if data is not None:
        Path("bad.pt2").write_bytes(data)
    result = parity("run", "bad.pt2")
    assert result.exit_code == 2
    assert "bad.pt2" in result.output
    assert "Traceback" not in result.output


def test_a_torchscript_archive_needs_a_model_file() -> None:
    torch.jit.save(torch.jit.script(nn.Linear(4, 4)), "net.pt")
    result = parity("run", "net.pt")
    assert result.exit_code == 2
    assert "torch.jit.load('net.pt')" in result.output
