"""Reproductions of planted faults: small, runnable with torch and ONNX Runtime alone, and they agree when repaired."""

from __future__ import annotations

import ast
import copy
import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn
from torch.nn import functional

from cellbridge import converter, parity
from cellbridge.parity.causes.reproduction import running
from cellbridge.parity.report.report import Report
from cellbridge.runtime import nn as cells
from cellbridge.runtime import ops
from cellbridge.runtime.errors import ConversionError
from cellbridge.runtime.ops import registry
from cellbridge.runtime.storage.safetensors_bytes import from_bytes
from tests.parity.causes.reproduction.scripts import run_here

pytestmark = pytest.mark.causes

ELEMENTS = 64


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.axis, self.detached = nn.Linear(width, width), -1, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2), self.axis) @ v)
        y = functional.gelu(self.up(x))
        return x + (y.detach() if self.detached else y)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.lstm(x)[0]
        return y


def eps(block: Any) -> None:
    block.norm.eps = 1e-3


def transposed(block: Any) -> None:
    block.out.weight.data = block.out.weight.data.T.clone()


def axis(block: Any) -> None:
    block.axis = -2


def detached(block: Any) -> None:
    block.detached = True


def frozen(block: Any) -> None:
    block.up.weight.requires_grad_(False)


def element(network: Any) -> None:
    network.lstm.bias_ih_l0.data[3] += 0.1


@functools.cache
def compare(fault: Callable[[Any], None]) -> Report:
    torch.manual_seed(0)
    reference = Recurrent() if fault is element else Block()
    candidate = copy.deepcopy(reference)
    fault(candidate)
    return parity.compare(reference, candidate, (torch.randn(3, 5, 3 if fault is element else 8),))


def only_folder(report: Report, folder: Path) -> Path:
    written = report.write_repro(folder)
    assert written.missing == {}
    (name,) = written.folders.values()
    return folder / name


def elements(folder: Path) -> int:
    """The numbers in both files."""
    files = (folder / name for name in ("inputs.safetensors", "weights.safetensors"))
    return sum(array.size for file in files for array in from_bytes(file.read_bytes())[0].values())


def imported(script: Path) -> set[str]:
    tree = ast.parse(script.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


STANDARD = {"json", "sys", "pathlib", "math", "collections", "typing"}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("fault", "wrong", "right"),
    [
        (eps, "0.001)", "1e-05)"),
        (transposed, 't["w2"]', 't["w0"]'),
        (axis, "dim=1", "dim=2"),
        (detached, ".detach()\n    v1", "\n    v1"),
        (element, 't["w4"]', 't["w2"]'),
        (frozen, "= w0.detach()", "= w0"),
    ],
)
@pytest.mark.every(6)
def test_a_fault_is_reproduced_and_gone_when_it_is_repaired(
    fault: Callable[[Any], None], wrong: str, right: str, tmp_path: Path
) -> None:
    folder = only_folder(compare(fault), tmp_path / "repro")
    script = folder / "repro.py"
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "inputs.safetensors", "repro.py", "weights.safetensors",
    ]  # fmt: skip
    assert elements(folder) <= ELEMENTS
    assert imported(script) - STANDARD == {"torch"}
    assert run_here(script).returncode == 1
    text = script.read_text()
    candidate = text.index("def candidate")
    assert wrong in text[candidate:], text
    script.write_text(text[:candidate] + text[candidate:].replace(wrong, right))
    done = run_here(script)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_one_operation_remains(tmp_path: Path) -> None:
    text = (only_folder(compare(axis), tmp_path / "repro") / "repro.py").read_text()
    assert "def reference(x0):\n    v0 = torch.nn.functional.softmax(x0, dim=2)\n    return v0\n" in text
    assert "def candidate(x0):\n    v0 = torch.nn.functional.softmax(x0, dim=1)\n    return v0\n" in text


@pytest.mark.usefixtures("quick")
def test_cells_with_the_same_fault_are_one_reproduction(tmp_path: Path) -> None:
    def network(eps: float) -> nn.Module:
        return nn.Sequential(nn.LayerNorm(4, eps=eps), nn.Hardtanh(-eps * 1e4, 1), nn.LayerNorm(4, eps=eps))

    report = parity.compare(network(1e-5), network(1e-3), (torch.randn(2, 4),))
    assert len(report.failing) == 3
    written = report.write_repro(tmp_path / "repro")
    assert len(written.folders) == 2
    assert sorted(folder.name for folder in (tmp_path / "repro").iterdir()) == sorted(written.folders.values())


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.conv(x)).relu().mean((2, 3))
        return y


class Port(cells.Cell):
    """Its convolution pads, since that is the default there."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = cells.Conv2d(3, 4, 3, has_bias=True), cells.BatchNorm2d(4)

    def construct(self, x: Any) -> Any:
        return ops.relu(self.norm(self.conv(x))).mean((2, 3))


@pytest.mark.usefixtures("quick")
def test_the_padding_of_a_port(tmp_path: Path) -> None:
    report = parity.compare(Convolution().eval(), Port(), (torch.randn(2, 3, 6, 6),))
    script = only_folder(report, tmp_path / "repro") / "repro.py"
    assert elements(script.parent) <= ELEMENTS
    assert "the shapes differ" in run_here(script).stdout
    assert imported(script) - STANDARD == {"torch"}
    head, _, tail = script.read_text().partition("def candidate")
    script.write_text(head + "def candidate" + tail.replace("(1, 1), (1, 1), (1, 1), 1)", "(1, 1), (0, 0), (1, 1), 1)"))
    assert run_here(script).returncode == 0


class Norm(nn.LayerNorm):
    """It can't be captured."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y if float(y.detach().numpy().sum()) < 100 else y * 2


class Branching(nn.Module):
    """It can't be captured, nor can its norm, unless that is an ordinary one."""

    def __init__(self, eps: float, norm: type[nn.LayerNorm] = Norm) -> None:
        super().__init__()
        self.norm = norm(4, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(x)
        return y if y.sum() > 100 else y * 2


class Straight(Branching):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(x) * 2
        return y


@pytest.mark.usefixtures("quick")
def test_a_candidate_without_a_program_is_represented_by_the_cause(tmp_path: Path) -> None:
    report = parity.compare(Straight(1e-5, nn.LayerNorm), Branching(1e-3), (torch.randn(2, 4),))
    folder = only_folder(report, tmp_path / "repro")
    assert "can't be read as a program" in (folder / "README.md").read_text()
    assert "1e-05)\n" in (folder / "repro.py").read_text()
    assert run_here(folder / "repro.py").returncode == 1


# ---- ONNX ----


@pytest.mark.usefixtures("quick")
def test_the_axis_of_a_softmax_in_a_file(tmp_path: Path) -> None:
    module, args = Block().eval(), (torch.randn(2, 5, 8),)
    model = converter.to_onnx(converter.from_torch(module, args))
    (node,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", -2))
    folder = only_folder(parity.compare(module, model, args), tmp_path / "repro")
    assert elements(folder) <= ELEMENTS
    assert imported(folder / "repro.py") - STANDARD == {"torch", "onnxruntime"}
    assert run_here(folder / "repro.py").returncode == 1
    small = onnx.load(folder / "model.onnx")
    (node,) = small.graph.node
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", -1))
    onnx.save(small, folder / "model.onnx")
    assert run_here(folder / "repro.py").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_onnx_runtime_alone_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.get("gelu")
    right = entry.onnx_rule

    def wrong(graph: Any, *inputs: str, **attributes: Any) -> Any:
        return graph.op("Mul", right(graph, *inputs, **attributes), graph.constant(np.float32(1.001)))

    monkeypatch.setattr(entry, "onnx_rule", wrong)
    report = parity.check(Block().eval(), (torch.randn(2, 5, 8),))
    folder = only_folder(report, tmp_path / "repro")
    assert elements(folder) <= ELEMENTS
    assert imported(folder / "repro.py") - STANDARD == {"torch", "onnxruntime"}
    assert run_here(folder / "repro.py").returncode == 1
    small = onnx.load(folder / "model.onnx")
    assert [node.op_type for node in small.graph.node] == ["Gelu", "Mul"]
    factor = small.graph.initializer[0]
    factor.CopyFrom(onnx.numpy_helper.from_array(np.float32(1), factor.name))
    onnx.save(small, folder / "model.onnx")
    assert run_here(folder / "repro.py").returncode == 0


# ---- no reproduction ----


@pytest.mark.usefixtures("quick")
def test_what_agrees_alone_is_no_reproduction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = compare(eps)
    agreed = subprocess.CompletedProcess([], 0, "they agree\n", "")
    monkeypatch.setattr(running, "start", lambda script: agreed)
    written = report.write_repro(tmp_path / "repro")
    assert written.folders == {}
    assert written.missing == {"norm": "both sides agree when they are run alone"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print('they agree')", "both sides agree"),
        ("raise ValueError('no torch')", "the script failed: ValueError: no torch"),
        ("print('they differ')", "the script failed"),
        ("import sys; sys.exit(1)", "the script failed"),
        ("import time; time.sleep(9)", "the script took longer"),
    ],
)
def test_a_script_must_show_the_difference(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SECONDS", 2.0 if "sleep" not in text else 0.2)
    (tmp_path / "repro.py").write_text(text)
    with pytest.raises(ConversionError, match=message):
        running.run_script(tmp_path / "repro.py")


def test_a_report_that_passes_keeps_nothing() -> None:
    assert compare(lambda network: None).reproducible == []
