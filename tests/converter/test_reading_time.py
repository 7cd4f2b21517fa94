"""Reading a model takes time in proportion to its file, whatever stands in it; what would take more has a limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cellbridge.converter import from_onnx
from cellbridge.converter.onnx_in import folding
from cellbridge.converter.onnx_in.model import protos
from cellbridge.runtime import CellbridgeError, ConversionError
from cellbridge.runtime.programs.interpreter import execute
from tests.converter.test_onnx_in import model
from tests.limits import limited

FLOAT = TensorProto.FLOAT
MANY = 5000


def _model(nodes: list[onnx.NodeProto], shapes: dict[str, list[int | str]], **stored: np.ndarray) -> ModelProto:
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("y", FLOAT, None)
    tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _chain(operator: str, name: Callable[[int], str] = str) -> list[onnx.NodeProto]:
    values = ["x", *(f"v{i}" for i in range(1, MANY)), "y"]
    return [helper.make_node(operator, [values[i]], [values[i + 1]], name=name(i)) for i in range(MANY)]


@pytest.mark.parametrize("name", [str, "/layer.{}/relu".format], ids=["one Cell", "a Cell each"])
@pytest.mark.every(2)
def test_long_chains_of_nodes_and_cells(name: Callable[[int], str]) -> None:
    with limited(10, processor=True):
        program = from_onnx(_model(_chain("Relu", name), {"x": [3]}))
    assert sum(node.op == "relu" for node in program.nodes) == MANY


@pytest.mark.slow
def test_one_value_that_goes_into_many_cells() -> None:
    nodes = [helper.make_node("Relu", ["x"], [f"v{i}"], name=f"/layer.{i}/relu") for i in range(MANY)]
    nodes.append(helper.make_node("Identity", ["v0"], ["y"]))
    with limited(10, processor=True):
        from_onnx(_model(nodes, {"x": [3]}))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d {}", "a+{}"])
@pytest.mark.every(2)
def test_many_names_of_dimensions(name: str) -> None:
    shapes: dict[str, list[int | str]] = {f"x{i}": [name.format(i)] for i in range(MANY)}
    shapes |= {f"z{i}": ["!" * (i % 900 + 1) + "a" + "?" * (i // 900)] for i in range(1000)}
    with limited(10, processor=True):
        from_onnx(_model([helper.make_node("Relu", ["x0"], ["y"])], shapes))


@pytest.mark.parametrize("work", [protos.MAX_WORK // 5, pytest.param(protos.MAX_WORK, marks=pytest.mark.slow)])
def test_long_expressions_of_dimensions_are_read_once_and_not_without_end(
    work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protos, "MAX_WORK", work)

    def sums(count: int) -> ModelProto:
        texts = ["+".join(f"a{i}_{k}" for i in range(120)) for k in range(count)]
        shapes: dict[str, list[int | str]] = {f"x{k}": [text] * 20 for k, text in enumerate(texts)}
        return _model([helper.make_node("Relu", ["x0"], ["y"])], shapes)

    with limited(10, processor=True):
        from_onnx(sums(3))
        with pytest.raises(ConversionError, match="too many long expressions"):
            from_onnx(sums(100))


@pytest.mark.parametrize("rank", [65, 10**6])
@pytest.mark.every(2)
def test_no_tensor_has_more_dimensions_than_numpy_can(rank: int) -> None:
    with limited(5, processor=True), pytest.raises(ConversionError, match=f"at most 64 dimensions, not {rank}"):
        from_onnx(model("net (float[1] x) => (float y) { y = Reshape(x, s) }", s=np.ones(rank, np.int64)))
    with limited(5, processor=True), pytest.raises(ConversionError, match=f"'x' has {rank} dimensions; at most 64"):
        from_onnx(_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1] * rank}))


def test_what_takes_many_steps_is_left_to_the_run() -> None:
    """A product of matrices decides no shape: it isn't computed while the model is read."""
    values = ["c", *(f"v{i}" for i in range(3000))]
    nodes = [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones((200, 200), np.float32)))]
    nodes += [helper.make_node("MatMul", [values[i], "c"], [values[i + 1]]) for i in range(3000)]
    nodes.append(helper.make_node("Add", ["x", values[-1]], ["y"]))
    with limited(8, processor=True):
        program = from_onnx(_model(nodes, {"x": [1]}))
    assert sum(node.op == "matmul" for node in program.nodes) == 3000


def test_a_model_computes_so_many_elements_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left to the run then gives the same."""
    text = "net (int64[1] x) => (int64 y) { a = Add(c, c) b = Add(a, c) d = Add(b, c) y = Add(x, d) }"
    constants = {"c": np.arange(100)}
    programs = []
    for most, adds in ((1000, 1), (250, 2), (10, 4)):
        monkeypatch.setattr(folding, "MAX_TOTAL_ELEMENTS", most)
        program = from_onnx(model(text, **constants))
        assert sum(node.op == "add" for node in program.nodes) == adds
        programs.append(program)
    results = [execute(program, [np.array([5])])[0] for program in programs]
    assert all(np.array_equal(result, 5 + 4 * np.arange(100)) for result in results)


def test_windows_of_too_many_elements() -> None:
    hostile = model("""net (float[1, 1, 8, 8] x) => (float y) {
        y = AveragePool<kernel_shape = [4096, 4096], pads = [2048, 2048, 2048, 2048]>(x)
    }""")
    with limited(10, processor=True), pytest.raises(CellbridgeError, match="a window of 4096 x 4096 elements is too"):
        execute(from_onnx(hostile), [np.ones((1, 1, 8, 8), np.float32)])
