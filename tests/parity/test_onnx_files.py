"""`parity run model.onnx` and `parity compare a.onnx b.onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from cellbridge import converter
from cellbridge.parity.cli import main
from cellbridge.parity.onnx_files import check_onnx, compare_onnx, generated_inputs
from cellbridge.runtime.errors import UsageError


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.block = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
        self.norm = nn.LayerNorm(4)

    def forward(self, tokens: Tensor, scale: Tensor) -> Tensor:
        return self.norm(self.block(self.table(tokens)) * scale)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("onnx") / "net.onnx"
    args = (torch.randint(0, 11, (2, 3)), torch.randn(2, 1, 1))
    shapes = {"tokens": {0: "batch", 1: "length"}, "scale": {0: "batch"}}
    converter.to_onnx(converter.from_torch(Network(), args, dynamic_shapes=shapes), file)
    return str(file)


def test_weights_that_are_stored_transposed_can_be_trained(path: str) -> None:
    program = converter.from_onnx(path)
    names = [name for name, parameter in program.parameters.items() if parameter.trainable]
    assert any(name.startswith("block.0.weight") for name in names)
    _, gradients = program.value_and_grad(*generated_inputs(program, 0))
    assert all(np.abs(gradients.parameters[name]).max() > 0 for name in names if name != "norm.bias")


def changed(path: str, target: Path, change: Any) -> str:
    model = onnx.load(path)
    change(model)
    onnx.save(model, target)
    return str(target)


def other_weight(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.name.startswith("block.0.weight"):
            array = numpy_helper.to_array(tensor).copy()
            array[1, 2] += 0.5
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def other_operator(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "Gelu":
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("approximate", "tanh"))


def invoked(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


def test_a_file_is_judged_cell_by_cell(path: str) -> None:
    report = check_onnx(path)
    assert report.ok, str(report)
    assert report.reference == "torch"
    assert report.sides == ["interpreter", "onnxruntime"]
    assert {"block", "block.0", "norm"} <= set(report.cells)
    assert any(c.kind == "parameter gradient" for c in report.cells["block.0"].comparisons)


def test_the_command_says_so(path: str) -> None:
    result = invoked("run", path)
    assert result.exit_code == 0, result.output
    assert "Parity holds" in result.output


def test_inputs_are_generated_of_the_declared_types(path: str) -> None:
    tokens, scale = generated_inputs(converter.from_onnx(path), seed=0)
    assert tokens.shape[0] == scale.shape[0]
    assert tokens.shape[0] != tokens.shape[1]
    assert tokens.dtype == np.int64
    assert 1 < tokens.max() < 11


def test_inputs_from_a_file(path: str, tmp_path: Path) -> None:
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, tokens=np.array([[1, 10]]), scale=np.ones((1, 1, 1), np.float32))
    assert invoked("run", path, "--inputs", str(arrays)).exit_code == 0
    np.savez(arrays, tokens=np.array([[1, 10]]))
    result = invoked("run", path, "--inputs", str(arrays))
    assert result.exit_code == 2
    assert "the model takes tokens, scale" in result.output
    np.savez(arrays, tokens=np.array([[1.0]]), scale=np.ones((1, 1, 1), np.float32))
    assert "tokens must be int64, given float64" in invoked("run", path, "--inputs", str(arrays)).output


def test_a_file_compared_with_itself(path: str) -> None:
    report = compare_onnx(path, path)
    assert report.ok, str(report)


@pytest.mark.parametrize(("change", "cell"), [(other_weight, "block.0"), (other_operator, "block.1")])
def test_a_difference_between_two_files_is_found_in_its_cell(path: str, tmp_path: Path, change: Any, cell: str) -> None:
    other = changed(path, tmp_path / "other.onnx", change)
    assert compare_onnx(path, other).failing == [cell]
    result = invoked("compare", path, other)
    assert result.exit_code == 1
    assert f"Parity fails in 1 Cell: {cell}" in result.output


def test_files_without_common_cells_are_compared_as_a_whole(path: str, tmp_path: Path) -> None:
    def renamed(model: onnx.ModelProto) -> None:
        del model.metadata_props[:]
        for number, node in enumerate(model.graph.node):
            node.name = f"node_{number}"
            del node.metadata_props[:]

    other = changed(path, tmp_path / "other.onnx", renamed)
    report = compare_onnx(path, other)
    assert report.ok, str(report)
    assert any("compared as a whole" in note for note in report.notes)
    different = changed(other, tmp_path / "different.onnx", other_weight)
    assert compare_onnx(path, different).failing == [""]


def test_options_of_torch_models_are_refused(path: str) -> None:
    for option in ("--train", "--round-trip"):
        result = invoked("run", path, option)
        assert result.exit_code == 2
        assert "not for an ONNX file" in result.output
    result = invoked("run", "fixtures/unet.py", "--inputs", "x.npz")
    assert result.exit_code == 2
    assert "--inputs is for ONNX files" in result.output


def test_models_with_other_inputs_are_refused(path: str, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "relu.onnx")
    with pytest.raises(UsageError, match="take 2 and 1 inputs"):
        compare_onnx(path, str(tmp_path / "relu.onnx"))
    assert invoked("run", str(tmp_path / "missing.onnx")).exit_code == 2
