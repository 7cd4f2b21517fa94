"""ONNX files that compute in float64 are judged in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from cellbridge import parity
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx


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
    reference, candidate = write(tmp_path / "a.onnx", 0.2), write(tmp_path / "b.onnx", 0.2000001)
    report = check_onnx(reference, dtype=dtype)
    assert report.ok
    assert report.dtype == "float64"
    assert compare_onnx(reference, reference, dtype=dtype).ok
    assert not compare_onnx(reference, candidate, dtype=dtype).ok


def mixed(path: Path, scale: float = 0.3) -> str:
    """From float64 to float32 and back, with weights in both."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [2, 4]) for name in "xy")
    stored = [
        numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 4)), "w"),
        numpy_helper.from_array(np.full(4, scale, np.float32), "v"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Cast", ["a"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "v"], ["g"]),
        helper.make_node("Cast", ["g"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], stored), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)
    return str(path)


def test_a_float32_part_with_weights_between_float64(tmp_path: Path) -> None:
    path = mixed(tmp_path / "m.onnx")
    report = check_onnx(path)
    assert report.ok, str(report)
    assert (report.dtype, report.reference, report.grads) == ("float64", "torch", True)
    assert compare_onnx(path, path).ok
    assert not compare_onnx(path, mixed(tmp_path / "other.onnx", 0.3001)).ok


@pytest.mark.parametrize("dtype", [None, "float64"])
@pytest.mark.every(2)
def test_a_module_against_a_file_in_float64(tmp_path: Path, dtype: str | None) -> None:
    torch.manual_seed(0)
    module, x = torch.nn.Linear(2, 2, bias=False).double(), torch.randn(3, 2, dtype=torch.float64)
    options = {} if dtype is None else {"dtype": dtype}
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.1, 0.3], [0.2, -0.7]], dtype=torch.float64))
    report = parity.compare(module, write(tmp_path / "a.onnx", 0.2), (x,), **options)
    assert report.ok, str(report)
    assert report.dtype == "float64"
    assert not parity.compare(module, write(tmp_path / "b.onnx", 0.2000000001), (x,), **options).ok


def regression(path: Path, dtype: int, coefficient: float = 0.5) -> str:
    """A scaler and a linear model, as skl2onnx writes them: operators of ai.onnx.ml, or plain ones in float64."""
    if dtype == TensorProto.DOUBLE:
        kind: type[np.floating[Any]] = np.float64
        stored = {"mean": np.array([0.1, 0.2]), "scale": np.array([2.0, 3.0]), "w": np.array([[coefficient], [0.25]])}
        nodes = [
            helper.make_node("Sub", ["x", "mean"], ["c"]),
            helper.make_node("Div", ["c", "scale"], ["s"]),
            helper.make_node("MatMul", ["s", "w"], ["y"]),
        ]
    else:
        kind, stored, ml = np.float32, {}, "ai.onnx.ml"
        nodes = [
            helper.make_node("Scaler", ["x"], ["s"], domain=ml, offset=[0.1, 0.2], scale=[0.5, 1 / 3]),
            helper.make_node(
                "LinearRegressor", ["s"], ["y"], domain=ml, coefficients=[coefficient, 0.25], intercepts=[0.1]
            ),
        ]
    x, y = (helper.make_tensor_value_info(name, dtype, ["n", size]) for name, size in (("x", 2), ("y", 1)))
    initializers = [numpy_helper.from_array(array.astype(kind), name) for name, array in stored.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], initializers), opset_imports=opsets, ir_version=8)
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE], ids=["ai.onnx.ml", "float64"])
@pytest.mark.every(2)
def test_a_file_of_scikit_learn(tmp_path: Path, dtype: int) -> None:
    reference, candidate = regression(tmp_path / "a.onnx", dtype), regression(tmp_path / "b.onnx", dtype, 0.5001)
    report = check_onnx(reference)
    assert report.ok, str(report)
    assert report.dtype == ("float64" if dtype == TensorProto.DOUBLE else "float32")
    assert compare_onnx(reference, reference).ok
    assert not compare_onnx(reference, candidate).ok
