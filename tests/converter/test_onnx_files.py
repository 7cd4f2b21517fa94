"""Exported models as files: whole or not at all, and large tensors beside them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime import ConversionError, UsageError, execute
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.ir.types import FLOAT32, ProgramParameter, Type
from cellbridge.runtime.lowering import writing
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
    parameters = {name: ProgramParameter(value_of(values[name]), array) for name, array in data.items()}
    program = finish(b, [x], {}, y, parameters=parameters)
    monkeypatch.setattr(writing, "MODEL_LIMIT", 5000)
    with pytest.raises(ConversionError, match="pass a path"):
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


def wide_program() -> Any:
    b = Builder()
    x = b.new_value("x", Type(FLOAT32, (3, 40)))
    weight = b.new_value("weight", Type(FLOAT32, (30, 40)))
    return finish(
        b, [x], {}, linear.linear(x, weight), parameters={"weight": ProgramParameter(value_of(weight), floats(30, 40))}
    )


def test_external_data_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program, x = wide_program(), floats(3, 40)
    to_onnx(program, path, external_data=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    onnx.checker.check_model(str(path), full_check=True)
    np.testing.assert_allclose(run_model(path, {"x": x})["output"], execute(program, [x])[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="external_data=True needs a path"):
        to_onnx(program, external_data=True)


def test_external_data_can_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MODEL_LIMIT", 1000)
    with pytest.raises(ConversionError, match="an ONNX model holds less than 2 GiB"):
        to_onnx(wide_program(), tmp_path / "model.onnx", external_data=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_model_and_its_data_are_replaced_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    path, x = tmp_path / "model.onnx", floats(3, 40)
    to_onnx(wide_program(), path, external_data=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    move, moved = Path.replace, 0

    def interrupted(file: Path, target: Path) -> Path:
        nonlocal moved
        moved += 1
        if moved == fails_at:
            raise KeyboardInterrupt
        return move(file, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        to_onnx(wide_program(), path, external_data=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    monkeypatch.undo()
    program = wide_program()
    model = to_onnx(program, path, external_data=True)
    data = {
        entry.value for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"
    }
    assert {file.name for file in tmp_path.iterdir()} == {"model.onnx", *data}
    assert data != {"model.onnx.data"}, "what an old model refers to is never changed"
    np.testing.assert_allclose(run_model(path, {"x": x})["output"], execute(program, [x])[0], rtol=1e-4, atol=1e-5)


def test_tensors_are_written_one_at_a_time(tmp_path: Path) -> None:
    """Memory on top of the weights stays near the largest, transposed ones included."""
    b = Builder()
    y = x = b.new_value("x", Type(FLOAT32, (1, 2, 512)))
    parameters = {}
    for i in range(12):
        weight = b.new_value(f"w{i}", Type(FLOAT32, (512, 512)))
        parameters[f"w{i}"] = ProgramParameter(value_of(weight), floats(512, 512))
        y = linear.linear(y, weight)
    program = finish(b, [x], {}, y, parameters=parameters)
    to_onnx(program, tmp_path / "warm.onnx", external_data=True)
    tracemalloc.start()
    model = to_onnx(program, tmp_path / "model.onnx", external_data=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [node.op_type for node in model.graph.node] == ["MatMul"] * 12
    assert peak < 3 * 2**20, "a weight is 1 MiB, and there are 12"
