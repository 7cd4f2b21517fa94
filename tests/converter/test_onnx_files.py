"""Exported models as files: whole or not at all, and large tensors beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from cellbridge.converter.onnx_out import writing
from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.parity.sides.onnxruntime_session import run_model
from cellbridge.runtime import ConversionError, UsageError, execute
from cellbridge.runtime.ir.types import FLOAT32, Parameter, Type
from cellbridge.runtime.ops import linear
from cellbridge.runtime.tracing import Builder
from tests.converter.programs import finish, floats, two_cells, value_of


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    returned = to_onnx(two_cells(), path)
    assert onnx.load(path) == returned
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        to_onnx(two_cells(), path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("model.onnx", b"old")]


def test_a_path_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"can't write .*missing/model\.onnx: No such file or directory"):
        to_onnx(two_cells(), tmp_path / "missing" / "model.onnx")


def test_tensors_of_a_large_model_are_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    x = b.new_value("x", Type(FLOAT32, (3, 40)))
    data = {"a.weight": floats(30, 40), "b.weight": floats(30, 40), "b.bias": floats(30)}
    values = {name: b.new_value(name, Type(FLOAT32, array.shape)) for name, array in data.items()}
    y = linear.linear(x, values["a.weight"]) + linear.linear(x, values["b.weight"], values["b.bias"])
    parameters = {name: Parameter(value_of(values[name]), array) for name, array in data.items()}
    program = finish(b, [x], {}, y, parameters=parameters)
    monkeypatch.setattr(writing, "MODEL_LIMIT", 5000)
    with pytest.raises(ConversionError, match="give a path"):
        to_onnx(program)
    path = tmp_path / "model.onnx"
    model = to_onnx(program, path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    external = {t.name for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL}
    assert external == {"a.weight", "b.weight"}
    onnx.checker.check_model(str(path), full_check=True)
    x_data = floats(3, 40)
    (expected,) = execute(program, [x_data])
    np.testing.assert_allclose(run_model(path, {"x": x_data})["output"], expected, rtol=1e-4, atol=1e-5)
