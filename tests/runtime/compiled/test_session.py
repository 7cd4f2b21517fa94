"""`run_model`: providers, inputs, half precision, and what it says when ONNX Runtime can't."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from cellbridge.runtime import UsageError
from cellbridge.runtime.compiled.session import SessionError, explain, run_model


def model_of(op_type: str, dtype: int, count: int = 1) -> onnx.ModelProto:
    """`y = op_type(x0, ...)` on tensors of shape (2, 2)."""
    inputs = [helper.make_tensor_value_info(f"x{i}", dtype, [2, 2]) for i in range(count)]
    node = helper.make_node(op_type, [value.name for value in inputs], ["y"], name=f"/layer/0/{op_type}")
    node.metadata_props.add(key="cellbridge.cell", value="layer.0")
    node.metadata_props.add(key="cellbridge.source", value="model.py:3: y = f(x)")
    graph = helper.make_graph([node], "model", inputs, [helper.make_tensor_value_info("y", dtype, [2, 2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


X = np.array([[1.0, -2.0], [0.5, 3.0]])


@pytest.mark.parametrize(("dtype", "element"), [(np.float32, TensorProto.FLOAT), (np.float16, TensorProto.FLOAT16)])
def test_a_model_is_run(dtype: type, element: int) -> None:
    result = run_model(model_of("Add", element, 2), {"x0": X.astype(dtype), "x1": X.astype(dtype)})
    np.testing.assert_array_equal(result["y"], (X + X).astype(dtype), strict=True)


def test_scalars_stay_scalars() -> None:
    model = model_of("Identity", TensorProto.FLOAT)
    for value in (model.graph.input[0], model.graph.output[0]):
        del value.type.tensor_type.shape.dim[:]
    assert run_model(model, {"x0": np.array(2.0, np.float32)})["y"].shape == ()


def test_transposed_arrays_are_taken() -> None:
    array = np.asfortranarray(X.astype(np.float32))
    np.testing.assert_array_equal(run_model(model_of("Identity", TensorProto.FLOAT), {"x0": array})["y"], array)


def test_bfloat16_goes_in_and_out() -> None:
    array = X.astype(ml_dtypes.bfloat16)
    result = run_model(model_of("Identity", TensorProto.BFLOAT16), {"x0": array})["y"]
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result.astype(np.float64), X)


def test_a_missing_kernel_names_operator_cell_and_source(tmp_path: Path) -> None:
    model = model_of("Add", TensorProto.BFLOAT16, 2)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    array = X.astype(ml_dtypes.bfloat16)
    for given in (model, path):
        with pytest.raises(SessionError) as caught:
            run_model(given, {"x0": array, "x1": array})
        assert "Could not find an implementation for Add(14)" in str(caught.value)
        assert "operator Add of Cell layer.0 at model.py:3: y = f(x)" in str(caught.value)


@pytest.mark.parametrize(
    ("message", "explanation"),
    [
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model from m.onnx failed:/onnxruntime_src/a.h:46 void f(int) ONNX "
            "Runtime only *guarantees* support for models stamped with official released onnx opset versions. Opset 27 "
            "is under development and support for this is limited.\nCurrent official support for domain ai.onnx is "
            "till opset 26.",
            r"its opset is 27, and ONNX Runtime \S+ knows those up to 26",
        ),
        (
            "[ONNXRuntimeError] : 1 : FAIL : /onnxruntime_src/b.cc:256 f() Unsupported model IR version: 14, max "
            "supported IR version: 13",
            r"its IR version is 14, and ONNX Runtime \S+ knows those up to 13",
        ),
    ],
)
def test_a_model_that_is_newer_than_onnxruntime(message: str, explanation: str) -> None:
    error = explain(RuntimeError(message), model_of("Relu", TensorProto.FLOAT), "cpu")
    assert re.search(explanation, str(error))
    assert "an older opset: converter.to_onnx" in str(error)


def test_wrong_inputs_are_told() -> None:
    model = model_of("Exp", TensorProto.FLOAT)
    with pytest.raises(UsageError, match=r"the model takes the inputs \['x0'\], given \['x'\]"):
        run_model(model, {"x": X.astype(np.float32)})
    with pytest.raises(UsageError, match=r"input 'x0' .* tensor\(float\), given tensor\(double\)"):
        run_model(model, {"x0": X})
    with pytest.raises(SessionError, match="x0"):
        run_model(model, {"x0": X[:1].astype(np.float32)})


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(SessionError, match=r"model\.onnx"):
        run_model(path, {})
    path.write_text("no model")
    with pytest.raises(SessionError, match="can't run the model"):
        run_model(path, {})


def test_a_dtype_without_a_kernel_is_told() -> None:
    with pytest.raises(SessionError, match=r"implementation for Softsign(.*\n)+.*compute in float32"):
        run_model(model_of("Softsign", TensorProto.DOUBLE), {"x0": X})


def test_an_unknown_provider_is_told() -> None:
    with pytest.raises(UsageError, match=r"unknown provider 'tpu': the installed ONNX Runtime .* has cpu"):
        run_model(model_of("Exp", TensorProto.FLOAT), {"x0": X.astype(np.float32)}, provider="tpu")


def test_a_provider_that_did_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime itself goes on with the CPU where CUDA can't be loaded."""
    monkeypatch.setattr(ort.InferenceSession, "get_providers", lambda self: ["CPUExecutionProvider"])
    with pytest.raises(UsageError, match=r"can't use provider 'cuda' on this machine .* available: cpu"):
        run_model(model_of("Exp", TensorProto.FLOAT), {"x0": X.astype(np.float32)}, provider="cuda")
