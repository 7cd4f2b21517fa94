"""Files that ONNX Runtime itself rejects: `run` and `compare` say that first, and only of such files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import NodeProto, TensorProto, helper, load, save

from cellbridge.parity.cli import main

REJECTED: dict[str, tuple[NodeProto, int]] = {
    "types": (helper.make_node("Add", ["x", "k"], ["y"]), 17),
    "missing weight": (helper.make_node("MatMul", ["x", "w"], ["y"]), 17),
    "operator": (helper.make_node("Frobnicate", ["x"], ["y"]), 17),
    "attribute": (helper.make_node("Relu", ["x"], ["y"], nonsense=1), 17),
    "shapes": (helper.make_node("MatMul", ["x", "x"], ["y"]), 17),
    "opset": (helper.make_node("Relu", ["x"], ["y"]), 99),
}


def write(path: Path, node: NodeProto, opset: int) -> str:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    constant = helper.make_tensor("k", TensorProto.INT64, [3], [1, 2, 3])
    graph = helper.make_graph([node], "graph", [x], [y], [constant])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return str(path)


@pytest.mark.parametrize(("node", "opset"), REJECTED.values(), ids=REJECTED)
def test_a_rejected_file_is_named_first(tmp_path: Path, node: NodeProto, opset: int) -> None:
    good = write(tmp_path / "good.onnx", helper.make_node("Relu", ["x"], ["y"]), 17)
    bad = write(tmp_path / "bad.onnx", node, opset)
    net = tmp_path / "net.py"
    net.write_text("import torch\nmodel, inputs = torch.nn.ReLU, lambda: (torch.ones(2, 3),)\n")
    for command in (["run", bad], ["compare", good, bad], ["compare", str(net), bad]):
        result = CliRunner().invoke(main, command, catch_exceptions=False)
        assert result.exit_code == 3, result.output
        assert f"error: ONNX Runtime itself rejects {bad}: " in result.output
        assert f"rejects {good}" not in result.output
        assert "\n  besides: " in result.output


def test_a_file_that_loads_is_not_called_rejected(tmp_path: Path) -> None:
    good = write(tmp_path / "good.onnx", helper.make_node("Relu", ["x"], ["y"]), 17)
    result = CliRunner().invoke(main, ["run", good, "--shape", "z=2,3"], catch_exceptions=False)
    assert result.exit_code == 2, result.output
    assert "reject" not in result.output


def test_a_reference_that_onnxruntime_alone_rejects_is_named_in_the_verdict(tmp_path: Path) -> None:
    good = write(tmp_path / "good.onnx", helper.make_node("Relu", ["x"], ["y"]), 17)
    model = load(good)
    model.graph.node.append(helper.make_node("Neg", ["x"], ["z"], name="same"))
    model.graph.node[0].name = "same"
    save(model, tmp_path / "bad.onnx")
    result = CliRunner().invoke(main, ["compare", str(tmp_path / "bad.onnx"), good], catch_exceptions=False)
    text = " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "Parity holds though ONNX Runtime itself rejects the reference" in text
    assert "two nodes with same node name (same)" in text
    sound = CliRunner().invoke(main, ["compare", good, good], catch_exceptions=False)
    assert "reject" not in sound.output
