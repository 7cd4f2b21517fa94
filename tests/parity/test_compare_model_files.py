"""`parity compare MODEL.py MODEL.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main

MODEL = """
import torch
from torch import nn

class Scale(nn.Module):
    def forward(self, x):
        return x.mean(1, keepdim=True) * NUMBER

def model():
    return nn.Sequential(nn.LayerNorm(4), Scale(), nn.Linear(4, 3))

def inputs():
    yield (torch.linspace(-1, 1, 24).reshape(2, 3, 4),)
    yield (torch.linspace(-2, 1, 12).reshape(1, 3, 4),)
"""


PORT = """
from cellbridge.runtime import nn

class Port(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 3)

    def construct(self, x):
        return self.dense(x)

def model():
    return Port()
"""


MODULE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)

def model():
    return Net()

def inputs():
    return (torch.randn(2, 4),)
"""


def compared(tmp_path: Path, old: str, new: str, *options: str) -> Result:
    (tmp_path / "old.py").write_text(MODEL.replace("NUMBER", "2.0"))
    (tmp_path / "new.py").write_text(MODEL.replace("NUMBER", "2.0").replace(old, new))
    return CliRunner().invoke(main, ["compare", str(tmp_path / "old.py"), str(tmp_path / "new.py"), *options])


def test_equal_networks_hold_on_all_inputs(tmp_path: Path) -> None:
    result = compared(tmp_path, "x.mean(1, keepdim=True)", "x.sum(1, keepdim=True) / x.shape[1]")
    assert result.exit_code == 0, result.output
    assert "Parity holds" in result.output
    assert "2 inputs" in " ".join(result.output.split())


@pytest.mark.causes
@pytest.mark.parametrize(
    ("old", "new", "cell", "fix"),
    [
        ("nn.LayerNorm(4)", "nn.LayerNorm(4, eps=1e-3)", "0", "LayerNorm(..., eps=1e-05)"),
        ("mean(1,", "mean(2,", "1", "use axes=(1,)"),  # no attribute of the class Scale
    ],
)
@pytest.mark.every(2)
def test_a_difference_is_found_with_its_fix(tmp_path: Path, old: str, new: str, cell: str, fix: str) -> None:
    result = compared(tmp_path, old, new)
    assert result.exit_code == 1, result.output
    assert f"Parity fails in 1 Cell: {cell}" in result.output
    assert f"to fix: {fix}" in result.output


def test_a_candidate_needs_no_inputs_and_may_pair_cells(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(MODEL.replace("NUMBER", "2.0"))
    new = MODEL.replace("NUMBER", "2.0").partition("def inputs")[0]
    new = new.replace("nn.Sequential(nn.LayerNorm(4), Scale(), nn.Linear(4, 3))", "Net()")
    new += """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.scale, self.out = nn.LayerNorm(4), Scale(), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.scale(self.norm(x)))

cells = {"norm": "0", "scale": "1", "out": "2"}
"""
    (tmp_path / "new.py").write_text(new)
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "old.py"), str(tmp_path / "new.py")])
    assert result.exit_code == 0, result.output
    assert "4 Cells: 4 pass" in result.output


@pytest.mark.parametrize("options", [["--load-weights"], []])
def test_a_candidate_may_be_a_cell(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "net.py").write_text(MODULE)
    (tmp_path / "port.py").write_text(PORT + ("" if options else 'cells = {"dense": "fc"}\n'))
    words = ["compare", str(tmp_path / "net.py"), str(tmp_path / "port.py"), "--no-probe", *options]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "2 Cells: 2 pass" in result.output
    (tmp_path / "port.py").write_text(PORT.replace("self.dense(x)", "self.dense(x) * 2"))
    assert CliRunner().invoke(main, words).exit_code == 1


PAIRS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.scale, self.out = nn.LayerNorm(4), Scale(), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.scale(self.norm(x)))

cells = {"norm": "0", "scale": "1", "out": "2"}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{"norm"', '{1: 2, "norm"', "cells={1: 2}: needed a path in the reference by a path in the candidate"),
        ('"norm": "0"', '"norm": "1"', "two Cells of the candidate the same name: norm, scale are 1"),
        ("nn.Linear(4, 3)\n", "nn.LazyLinear(3)\n", "parameters have no shape yet: out.weight, out.bias"),
        (
            "cells =",
            'weights = {"out.weight": ("2.weight", lambda w: 1 / 0)}\ncells =',
            "raised ZeroDivisionError when its",
        ),
    ],
)
def test_a_candidate_with_a_mistake_is_no_fault_of_parity(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = MODEL.replace("NUMBER", "2.0")
    port = text.replace("nn.Sequential(nn.LayerNorm(4), Scale(), nn.Linear(4, 3))", "Net()") + PAIRS
    assert old in port
    (tmp_path / "old.py").write_text(text)
    (tmp_path / "new.py").write_text(port.replace(old, new))
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "old.py"), str(tmp_path / "new.py"), "--no-probe"])
    assert result.exit_code == 2, result.output
    assert message in result.stderr


@pytest.mark.parametrize("command", ["run", "record", "lock", "inspect"])
def test_a_file_that_pairs_cells_as_a_candidate_is_a_model_file_for_every_command(tmp_path: Path, command: str) -> None:
    text = MODEL.replace("NUMBER", "2.0").replace("nn.Sequential(nn.LayerNorm(4), Scale(), nn.Linear(4, 3))", "Net()")
    (tmp_path / "new.py").write_text(text + PAIRS + "\ndef inputs():\n    return (torch.randn(2, 3, 4),)\n")
    output = ["-o", str(tmp_path / "out")] if command in ("record", "lock") else []
    result = CliRunner().invoke(main, [command, str(tmp_path / "new.py"), *output])
    assert result.exit_code == 0, result.output
    if command == "run":
        assert "`cells` pair the model with another one in parity compare" in " ".join(result.output.split())


@pytest.mark.parametrize("command", ["compare", "record", "lock", "inspect", "export"])
def test_a_port_is_made_only_where_it_is_judged(tmp_path: Path, command: str) -> None:
    """It may need another framework, which isn't there."""
    port = "\ndef cell():\n    raise ImportError('no such framework here')\n"
    net, out = str(tmp_path / "net.py"), str(tmp_path / "out")
    (tmp_path / "net.py").write_text(MODEL.replace("NUMBER", "2.0") + port)
    more = {"compare": [net, "--no-probe"], "record": ["-o", out], "lock": ["-o", out]}
    more["export"] = ["-o", f"{out}.onnx", "--no-check"]
    result = CliRunner().invoke(main, [command, net, *more.get(command, [])])
    assert result.exit_code == 0, result.output
    judged = CliRunner().invoke(main, ["run", net])
    assert judged.exit_code == 2
    assert "ImportError when cell() was called" in judged.stderr


def test_an_onnx_file_of_another_name_is_one_for_every_command(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL.replace("NUMBER", "2.0"))
    net, file = str(tmp_path / "net.py"), str(tmp_path / "weights.bin")
    to_onnx = CliRunner().invoke(main, ["export", net, "-o", f"{file}.onnx", "--no-check"])
    assert to_onnx.exit_code == 0, to_onnx.output
    (tmp_path / "weights.bin.onnx").rename(file)
    for words in (["run", file], ["inspect", file], ["compare", file, file]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, (words, result.output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["record", "m.onnx", "-o", "out"],
            "here\n  what to do: give the model file (.py) that it was exported from; parity run, compare and inspect",
        ),
        (["export", "m.onnx", "-o", "out.onnx"], "m.onnx is an ONNX file, and a torch module is needed here"),
        (["lock", "m.onnx"], "m.onnx is an ONNX file, and a torch module is needed here"),
        (["compare", "net.py", "folder"], "what to do: if it is a recording: parity run net.py --against folder"),
        (["compare", "folder", "net.py"], "folder is a folder, and REFERENCE is a model file or an ONNX file"),
        (["compare", "nets.onnx", "net.py"], "no such file: nets.onnx; did you mean net.py?"),
        (["run", "absent.onnx"], "no such file: absent.onnx\n"),  # not m.onnx, which only ends alike
        (["run", "absent", "--train-steps", "1"], "no such file: absent\n"),
        (["run", "w.safetensors"], "w.safetensors holds weights, but no network\n  what to do: write a model file"),
        (["compare", "net.py", "w.ckpt"], "w.ckpt holds weights, but no network\n  what to do: write a model file"),
        (["weights", "net.py", "-o", "o.ckpt"], "(.pt, .pth, .bin, .safetensors, .ckpt), given a model file"),
        (["weights", "folder", "-o", "o.ckpt"], "given the folder folder\n  what to do: give one of its files"),
        (["weights", "absent", "-o", "o.ckpt"], "given absent, which isn't there"),
        (["weights", "text.pt", "-o", "o.ckpt"], "can't read text.pt: it is damaged, or isn't a torch checkpoint"),
        (["judge", "net.py", "folder"], "given a model file, net.py\n  what to do: parity record net.py -o FOLDER"),
        (["judge", "net.txt", "folder"], "a recording is a folder, given the file net.txt"),
        (["judge", "text.pt", "folder"], "a recording is a folder, given the file text.pt\n"),
        (["check", "--lock", "folder"], "needed a lock file, given the folder folder"),
        (["check", "--lock", "m.bin"], "m.bin isn't a lock file: it isn't text"),
        (["run", "port.py"], "it returned a Port, which is a Cell\n  what to do: a Cell is the port of a torch module"),
        (["inspect", "mm.onnx"], "no such file: mm.onnx; did you mean m.onnx?"),
        (["run", "net"], "no such file: net; did you mean net.py?"),
        (["run", "net.txt"], "net.txt is neither a model file, whose name ends in .py, nor an ONNX model"),
        (["inspect", "net.txt"], "net.txt is neither a model file"),
        (["compare", "net.py", "net.txt"], "net.txt is neither a model file"),
    ],
)
def test_what_a_command_does_not_take_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL.replace("NUMBER", "2.0"))
    (tmp_path / "m.onnx").touch()
    (tmp_path / "net.txt").write_text("model = 3")
    (tmp_path / "port.py").write_text(PORT)
    for name in ("w.safetensors", "w.ckpt"):
        (tmp_path / name).touch()
    for name in ("m.bin", "text.pt"):
        (tmp_path / name).write_bytes(b"\x5f\x82 is no pickle")
    (tmp_path / "folder").mkdir()
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_cells_of_a_port_do_not_pair_the_model_beside_it(tmp_path: Path) -> None:
    text = MODEL.replace("NUMBER", "2.0")
    (tmp_path / "old.py").write_text(text)
    port = "\ncells = {'nothing of the model': '0'}\n\ndef cell():\n    raise RuntimeError('not needed')\n"
    (tmp_path / "new.py").write_text(text + port)
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "old.py"), str(tmp_path / "new.py")])
    assert result.exit_code == 0, result.output
    (tmp_path / "new.py").write_text(text + port.partition("def cell")[0])
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "old.py"), str(tmp_path / "new.py")])
    assert result.exit_code == 2, result.output
    assert "nothing of the model" in result.output


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    result = compared(tmp_path, "def model", "def network")
    assert result.exit_code == 2
    assert "new.py defines no `model`" in result.output
    (tmp_path / "new.py").unlink()
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "old.py"), str(tmp_path / "new.py")])
    assert result.exit_code == 2
    assert "new.py" in result.output
    assert "Traceback" not in result.output
