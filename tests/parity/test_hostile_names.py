"""`parity` on files whose names contain code: nothing runs it, and the verdict is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from onnx import helper, numpy_helper
from torch import nn

from cellbridge import converter, parity
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.cli import main
from cellbridge.parity.report import terminal
from tests.converter.test_torch_out_large import nested
from tests.converter.test_torch_out_names import PAYLOADS, Outer, hostile_model, with_names

NAMES = PAYLOADS[:4]


@pytest.fixture(params=NAMES, ids=range(len(NAMES)))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives names; what they would make must not be there afterwards."""
    monkeypatch.chdir(tmp_path)
    count = iter(range(1000))
    yield lambda: request.param.replace("{n}", str(next(count)))
    assert not list(tmp_path.rglob("OWNED*"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.mark.every(3)
def test_an_onnx_file(name: Any) -> None:
    model = hostile_model(name)
    onnx.save(model, "hostile.onnx")
    done = run("run", "hostile.onnx", "--json", "report.json")
    assert done.exit_code == 0, done.output
    report = json.loads(Path("report.json").read_text())
    program = converter.from_onnx("hostile.onnx")
    assert [cell["path"] for cell in report["cells"]] == [call.path for call in program.calls]
    assert run("compare", "hostile.onnx", "hostile.onnx").exit_code == 0
    weight = model.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 1.01, weight.name))
    onnx.save(model, "other.onnx")
    done = run("compare", "hostile.onnx", "other.onnx")
    assert done.exit_code == 1, done.output
    assert run("inspect", "hostile.onnx").exit_code == 0


def test_functions_and_metadata_of_an_onnx_file(name: Any) -> None:
    function, domain = name(), name()
    inner = helper.make_node("Mul", ["a", "a"], ["b"], name=f"/{name()}/Mul".replace("/x", "/y"))
    body = helper.make_function(domain, function, ["a"], ["b"], [inner], [helper.make_opsetid("", 17)])
    node = helper.make_node(function, ["x"], ["h"], domain=domain, name=name())
    last = helper.make_node("Add", ["h", "w"], ["y"], name=name())
    for key, value in (
        ("pkg.torch.onnx.name_scopes", str(["", name(), name()])),
        ("pkg.torch.onnx.class_hierarchy", str([name(), name(), "Add"])),
    ):
        last.metadata_props.add(key=key, value=value)
    inputs, outputs = ([helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, [3])] for x in "xy")
    weights = [numpy_helper.from_array(np.ones(3, np.float32), "w")]
    graph = helper.make_graph([node, last], name(), inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=[body]), "f.onnx")
    done = run("run", "f.onnx")
    assert done.exit_code == 0, done.output


@pytest.mark.every(3)
def test_a_saved_program(name: Any) -> None:
    x, scale = torch.randn(2, 3), torch.tensor(2.0)
    program = with_names(converter.from_torch(Outer(), (x,), {"scale": scale, "option": "plain"}), name)
    program.save("hostile.cell")
    assert run("run", "hostile.cell").exit_code == 2
    module = converter.to_torch(program)
    keywords = dict(zip(program.arguments.children[1].keys, (scale, "plain"), strict=True))
    report = parity.compare(module, program, (x,), keywords)
    assert report.ok, str(report)
    assert list(report.cells) == [call.path for call in program.calls]
    assert {cell.class_name for cell in report.cells.values()} == {call.class_name for call in program.calls}
    json.dumps(report.to_dict())
    assert "agree" in str(report)


@pytest.mark.every(3)
def test_a_fault_is_told_under_the_names_of_the_program(name: Any) -> None:
    program = converter.from_onnx(hostile_model(name))
    module = converter.to_torch(program)
    with torch.no_grad():
        next(module.parameters())[0] += 1
    report = parity.compare(module, program, (torch.ones(2, 3),))
    assert not report.ok
    tensors = {comparison.tensor for cell in report.cells.values() for comparison in cell.failures}
    assert next(iter(program.parameters)) in tensors


class Named(nn.Module):
    """A network of the user's, with keys that are no identifiers."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({name: nn.Linear(3, 3), "1x1": nn.Linear(3, 3)})
        self.blocks.register_parameter(f"{name}, too", nn.Parameter(torch.ones(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks.values():
            x = block(x)
        return x * next(iter(self.blocks._parameters.values()))


def test_the_ways_back_to_torch() -> None:
    report = parity.check(Named("a b'c"), (torch.randn(2, 3),), round_trip=True)
    assert report.ok, str(report)
    assert {"blocks.a b'c", "blocks.1x1"} <= set(report.cells)
    assert len(report.sides) == 4


@pytest.mark.slow
def test_a_file_with_200_cells_within_each_other(tmp_path: Path) -> None:
    program, _, _ = nested(200)
    path = str(tmp_path / "deep.onnx")
    converter.to_onnx(program, path)
    done = run("run", path, "--json", str(tmp_path / "r.json"), "--junit", str(tmp_path / "r.xml"))
    assert done.exit_code == 0, done.output
    assert "201 Cells: 201 pass" in done.output
    assert run("inspect", path).exit_code == 0


def test_an_empty_name_of_a_module_is_shown(tmp_path: Path) -> None:
    model = hostile_model(lambda: "a")
    model.graph.node[1].name = "/a./relu"
    onnx.save(model, tmp_path / "a.onnx")
    done = run("run", str(tmp_path / "a.onnx"))
    assert done.exit_code == 0, done.output
    assert "(no name)" in done.output


def test_names_in_notes_do_not_act_on_who_prints_a_report(tmp_path: Path) -> None:
    """`print(report)` in a notebook or a script goes past the command's own care."""
    outputs = ["y\u202e", "\x1b[2J\x1b]0;title\x07"]
    nodes = [helper.make_node("Relu", ["x"], outputs[:1]), helper.make_node("Neg", ["x"], outputs[1:])]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in ("x", *outputs)]
    opsets = [helper.make_opsetid("", 18)]
    made = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=opsets, ir_version=9)
    onnx.save(made, tmp_path / "m.onnx")
    report = check_onnx(str(tmp_path / "m.onnx"))
    for text in (str(report), terminal.failure_text(report)):
        assert "y\\u202e" in text
        assert all(character.isprintable() or character == "\n" for character in text)
