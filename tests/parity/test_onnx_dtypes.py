"""Every dtype of ONNX through every command for files, with probes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cellbridge.parity.onnx_files.check import check_onnx
from cellbridge.parity.onnx_files.compare import compare_onnx
from cellbridge.parity.report.report import Report
from cellbridge.runtime.errors import UsageError

DTYPES = [
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "BOOL",
]  # fmt: skip
SHAPE = (2, 3)


def save(path: Path, nodes: list[onnx.NodeProto], given: int, returned: int) -> str:
    x = helper.make_tensor_value_info("x", given, SHAPE)
    y = helper.make_tensor_value_info("y", returned, SHAPE)
    graph = helper.make_graph(nodes, path.stem, [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return str(path)


def as_input(path: Path, dtype: int) -> str:
    """Computes in float32 from inputs of the dtype."""
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("Sin", ["f"], ["y"])]
    return save(path, nodes, dtype, TensorProto.FLOAT)


def as_output(path: Path, dtype: int) -> str:
    """Returns what it computes in float32 in the dtype."""
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Cast", ["a"], ["y"], to=dtype)]
    return save(path, nodes, TensorProto.FLOAT, dtype)


def inside(path: Path, dtype: int) -> str:
    """Has a part in the dtype."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["c"], to=dtype),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    return save(path, nodes, TensorProto.FLOAT, TensorProto.FLOAT)


def throughout(path: Path, dtype: int) -> str:
    """Computes in the dtype."""
    op = "Xor" if dtype == TensorProto.BOOL else "Add"
    return save(path, [helper.make_node(op, ["x", "x"], ["y"])], dtype, dtype)


KINDS: tuple[Callable[[Path, int], str], ...] = (as_input, as_output, inside, throughout)
COMMANDS: dict[str, Callable[[str], Report]] = {
    "run": lambda path: check_onnx(path, probe=True),
    "compare": lambda path: compare_onnx(path, path, probe=True),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.every(5)
def test_every_dtype(dtype: str, kind: Callable[[Path, int], str], command: str, tmp_path: Path) -> None:
    path = kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    if (dtype, kind) == ("BFLOAT16", throughout):
        with pytest.raises(UsageError, match="no kernel for these dtypes"):
            COMMANDS[command](path)
        return
    report = COMMANDS[command](path)
    assert not report.failed, str(report)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.every(2)
def test_a_float64_part_of_a_float32_file(command: str, tmp_path: Path) -> None:
    """Most numbers are of float64, and the input is of float32."""
    weight = onnx.numpy_helper.from_array(np.linspace(-1, 1, 9).reshape(3, 3), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("MatMul", ["d", "w"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(tmp_path / "m.onnx", nodes, TensorProto.FLOAT, TensorProto.FLOAT)
    model = onnx.load(path)
    model.graph.initializer.append(weight)
    onnx.save(model, path)
    report = COMMANDS[command](path)
    assert not report.failed, str(report)
    assert report.dtype == "float32"


@pytest.mark.parametrize("dtype", ["UINT16", "UINT32", "UINT64", "DOUBLE", "FLOAT16"])
@pytest.mark.parametrize("kind", [as_input, as_output], ids=lambda kind: kind.__name__)
def test_a_file_that_differs_fails(dtype: str, kind: Callable[[Path, int], str], tmp_path: Path) -> None:
    path = kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    model = onnx.load(path)
    changed = next(node for node in model.graph.node if node.op_type in ("Sin", "Abs"))
    changed.op_type = "Exp"
    onnx.save(model, tmp_path / "other.onnx")
    assert compare_onnx(path, str(tmp_path / "other.onnx"), probe=True).failed
