"""What the fuzzer has found, each by itself."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from cellbridge.converter import from_onnx, to_cell_source, to_onnx, to_torch
from cellbridge.runtime import ConversionError
from tests.converter.test_onnx_in import model


def test_dtypes_that_torch_has_not() -> None:
    made = model("net (float[n, 2] x) => (float[n, 2] y) { y = Add(x, w) }")
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.UINT4, dims=[2], raw_data=b"\x21")
    made.graph.initializer.append(tensor)
    with pytest.raises(ConversionError, match="torch has no dtype uint4"):
        to_torch(from_onnx(made))


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_an_elu_without_a_negative_side(alpha: float) -> None:
    made = model(f"net (float[3] x) => (float[3] y) {{ y = Elu<alpha = {alpha}>(x) }}")
    assert "construct" in to_cell_source(from_onnx(made))


def test_metadata_that_tell_of_arguments_of_no_call(tmp_path: Path) -> None:
    to_onnx(from_onnx(model("net (float[3] x) => (float[3] y) { y = Relu(x) }")), tmp_path / "m.onnx")
    made = onnx.load(tmp_path / "m.onnx")
    entry = next(entry for entry in made.metadata_props if "arguments" in entry.value)
    description = json.loads(entry.value)
    for arguments in ("tensor", {"tuple": ["tensor"]}, {"tuple": ["tensor", {"dict": []}]}, {"list": ["tensor"]}):
        entry.value = json.dumps(description | {"arguments": arguments})
        with pytest.raises(ConversionError, match="the arguments don't have the structure of a call"):
            from_onnx(made)


def test_sizes_that_only_the_run_tells_can_not_be_source() -> None:
    made = model("""net (float[2, 3] x, int64[4] p) => (float y) {
        q = Pad(x, p) s = Shape(q) z = ConstantOfShape(s) y = Add(q, z)
    }""")
    with pytest.raises(ConversionError, match="data-dependent size"):
        to_cell_source(from_onnx(made))


def test_messages_are_of_a_length_that_can_be_read() -> None:
    made = model("net (float[3] x) => (float[3] y) { y = Relu(x) }")
    made.graph.node[0].op_type = "R" * 10**6
    with pytest.raises(ConversionError) as caught:
        from_onnx(made)
    assert len(str(caught.value)) < 10_000
    assert "... (1000002 characters)" in str(caught.value)
    assert str(caught.value).count("R") > 3000
