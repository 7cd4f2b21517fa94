"""ONNX files that compute in float64 are judged in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cellbridge.parity.onnx_files.check import check_onnx
from cellbridge.parity.onnx_files.compare import compare_onnx


def write(path: Path, weight: float) -> str:
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n", 2])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n", 2])
    w = numpy_helper.from_array(np.array([[0.1, weight], [0.3, -0.7]]), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.every(2)
def test_a_file_is_judged_in_its_dtype(tmp_path: Path, dtype: str) -> None:
    path, other = write(tmp_path / "a.onnx", 0.2), write(tmp_path / "b.onnx", 0.2000001)
    report = check_onnx(path, dtype=dtype)
    assert report.ok
    assert report.dtype == "float64"
    assert compare_onnx(path, path, dtype=dtype).ok
    assert not compare_onnx(path, other, dtype=dtype).ok
