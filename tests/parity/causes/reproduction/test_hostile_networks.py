"""Reproductions of networks whose names contain code: none of it stands in a script, in a file's name, or is run."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import onnx
import pytest
import torch

from cellbridge import converter, parity, runtime
from cellbridge.parity.causes.reproduction.readme import quote
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.report.report import Report
from cellbridge.parity.report.repro import folder_name
from cellbridge.runtime.ir.program import Program
from tests.parity.hostile import LONE, OWNED, PAYLOADS, onnx_model, renamed_program

pytestmark = pytest.mark.causes

CODE = PAYLOADS[:22]
IDENTIFIER = re.compile(r"[xwbcgv]\d+")


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.fc = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.fc(self.norm(x) + self.shift)
        return y


def hostile_pair(folder: Path) -> tuple[Program, Program]:
    """A program with code in every name, and a copy with another weight."""
    converter.from_torch(Layers(), (torch.randn(2, 4),)).save(folder / "plain.cell")
    numbers = itertools.count()
    renamed_program(
        folder / "plain.cell", folder / "hostile.cell", lambda: f"{CODE[next(numbers) % len(CODE)]}{next(numbers)}"
    )
    first, second = (runtime.load(folder / "hostile.cell") for _ in range(2))
    for parameter in second.parameters.values():
        if parameter.data.ndim == 2:
            parameter.data[1] += 1
    return first, second


def require_harmless(report: Report, folder: Path) -> None:
    written = report.write_repro(folder)
    assert written.folders, written.missing
    for inside in folder.iterdir():
        assert re.fullmatch("[0-9]+_[A-Za-z0-9_]+", inside.name)
        text = (inside / "repro.py").read_text()
        assert OWNED not in text
        assert "FORGED" not in text
        tree = ast.parse(text)
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for function in functions:
            if function.name in ("reference", "candidate"):
                assert all(IDENTIFIER.fullmatch(argument.arg) for argument in function.args.args)
                names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                assert all(IDENTIFIER.fullmatch(name) for name in names - {"torch"})
        for file in inside.iterdir():
            if file.name != "README.md":
                assert OWNED.encode() not in file.read_bytes(), file.name


@pytest.mark.usefixtures("quick")
def test_programs_with_code_in_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = hostile_pair(tmp_path)
    report = parity.compare(first, second, {keys: torch.randn(2, 4) for keys in first.arguments.children[1].keys})
    before = {file.name for file in tmp_path.iterdir()}
    require_harmless(report, tmp_path / "repro")
    assert {file.name for file in tmp_path.iterdir()} == before | {"repro"}
    assert not list(tmp_path.rglob(f"{OWNED}*"))


@pytest.mark.usefixtures("quick")
def test_a_file_with_code_in_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()
    model = onnx_model(lambda: f"{PAYLOADS[0]}{next(numbers)}")
    onnx.save(model, "first.onnx")
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 2, weight.name))
    onnx.save(model, "second.onnx")
    report = compare_onnx("first.onnx", "second.onnx")
    require_harmless(report, tmp_path / "repro")
    assert list((tmp_path / "repro").rglob("model.onnx"))
    assert not list(tmp_path.rglob(f"{OWNED}*"))


@pytest.mark.parametrize("name", [*PAYLOADS, LONE], ids=range(len(PAYLOADS) + 1))
def test_names_of_folders_and_code_spans(name: str) -> None:
    assert re.fullmatch("[0-9]+_[A-Za-z0-9_]{1,40}", folder_name(1, name))
    span = quote(name)
    assert span.isprintable()
    assert span.count("`") == 2
    assert len(span) < 210
