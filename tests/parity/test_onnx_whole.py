"""ONNX files at given sizes and at tried sizes, compared as a whole if they can't be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import ConversionError, UsageError

RNG = np.random.default_rng(0)


def written(path: Path, graph: str, **initializers: Any) -> str:
    text = f'<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> {graph}'
    model = onnx.parser.parse_model(text)
    for name, data in initializers.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(data), name))
    onnx.save(model, path)
    return str(path)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


WEIGHT, OTHER = floats(8, 16), floats(8, 16)
# an operator of ONNX Runtime's own that is random in no way, and that nothing else reads
UNREADABLE = """net (float[n, 8] x) => (float[n, 16] y, float[n, 16] z) {
    h = MatMul(x, w)
    y = com.microsoft.Inverse(one)
    z = Tanh(h)
}"""
CONVOLUTIONS = """net (float[n, 3, h, w] x) => (float[n, 4, a, b] y) {
    p = Conv <strides = [2, 2]> (x, k)
    q = Conv <strides = [2, 2]> (p, l)
    y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (q)
}"""


def invoked(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def convolutions(tmp_path: Path) -> str:
    return written(tmp_path / "conv.onnx", CONVOLUTIONS, k=floats(4, 3, 3, 3), l=floats(4, 4, 3, 3))


def test_sizes_at_which_convolutions_run_are_found(convolutions: str) -> None:
    report = check_onnx(convolutions)
    assert report.ok, str(report)
    assert report.reference == "torch"
    assert compare_onnx(convolutions, convolutions).ok


def test_a_shape_is_given_on_the_command_line(convolutions: str, tmp_path: Path) -> None:
    json_file = tmp_path / "report.json"
    shape = "x=1,3,33,47"
    assert invoked("run", convolutions, "--shape", shape, "--json", str(json_file)).exit_code == 0
    shapes = {tuple(c["shape"]) for cell in json.loads(json_file.read_text())["cells"] for c in cell["comparisons"]}
    assert (1, 3, 33, 47) in shapes
    assert invoked("compare", convolutions, convolutions, "--shape", shape).exit_code == 0
    assert "[1, 3, 33, 47]" in invoked("inspect", convolutions, "--ir", "--shape", shape).output


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("x", "needed NAME=SIZES"),
        ("=1,2", "needed NAME=SIZES"),
        ("x=1,a", "needed NAME=SIZES"),
        ("x=1,-2", "needed NAME=SIZES"),
        ("u=1,2", "no input 'u': it takes x"),
        ("x=1,2", "it can't have the shape [1, 2]"),
    ],
)
def test_shapes_that_are_wrong(convolutions: str, shape: str, message: str) -> None:
    for command in (["run", convolutions], ["compare", convolutions, convolutions], ["inspect", convolutions]):
        result = invoked(*command, "--shape", shape)
        assert result.exit_code == 2, result.output
        assert message in result.output


def test_shapes_and_arrays_and_model_files_do_not_go_together(convolutions: str) -> None:
    result = invoked("run", convolutions, "--inputs", "x.npz", "--shape", "x=1,3,32,32")
    assert (result.exit_code, "--inputs can't be combined with --shape" in result.output) == (2, True)
    for command in ("run", "inspect"):
        result = invoked(command, "fixtures/unet.py", "--shape", "x=1,3,32,32")
        assert (result.exit_code, "--shape needs an ONNX file" in result.output) == (2, True)


def test_both_options_are_named_where_no_size_works(tmp_path: Path) -> None:
    graph = "net (float[n, k] x) => (float[m, 5] y) { y = MatMul(x, w) }"
    path = written(tmp_path / "a.onnx", graph, w=floats(37, 5))
    with pytest.raises(UsageError, match=r"(?s)none of the \d+ sizes.*--shape x=1,512.*--inputs arrays.npz"):
        check_onnx(path)
    assert check_onnx(path, shapes={"x": (2, 37)}).ok


def test_arrays_decide_what_a_file_is_read_for(tmp_path: Path) -> None:
    graph = """net (float[n, k] x) => (float[n, k] y) {
        shape = Shape(x)
        one = Constant<value_ints = [1]>()
        width = Gather(shape, one)
        six = Constant<value_ints = [6]>()
        long = Equal(six, width)
        y = If(long) <then_branch = a () => (u) { u = Add(x, w) }, else_branch = b () => (v) { v = Neg(x) }>
    }"""
    path = written(tmp_path / "a.onnx", graph, w=floats(6))
    np.savez(tmp_path / "x.npz", x=floats(2, 6))
    report = check_onnx(path, inputs=str(tmp_path / "x.npz"))
    assert report.ok
    assert any(c.kind == "parameter gradient" for c in report.cells[""].comparisons)


# ---- files that can't be read ----


@pytest.fixture
def unreadable(tmp_path: Path) -> str:
    return written(tmp_path / "first.onnx", UNREADABLE, w=WEIGHT, one=np.eye(16, dtype=np.float32))


def changed_file(path: str, target: Path, change: Any) -> str:
    model = onnx.load(path)
    change(model)
    onnx.save(model, target)
    return str(target)


def a_weight(model: onnx.ModelProto) -> None:
    array = numpy_helper.to_array(model.graph.initializer[0]).copy()
    array[1, 2] *= 1.001
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "w"))


def another_order(model: onnx.ModelProto) -> None:
    """h = w'x as a sum of two products: the same but for rounding."""
    weight = numpy_helper.to_array(model.graph.initializer[0])
    first, second = weight.copy(), weight.copy()
    first[4:], second[:4] = 0, 0
    del model.graph.initializer[0]
    model.graph.initializer.extend([numpy_helper.from_array(first, "w"), numpy_helper.from_array(second, "v")])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["x", "v"], ["b"])]
    nodes += [helper.make_node("Add", ["a", "b"], ["h"]), *list(model.graph.node)[1:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def outputs_exchanged(model: onnx.ModelProto) -> None:
    outputs = list(model.graph.output)[::-1]
    del model.graph.output[:]
    model.graph.output.extend(outputs)


def test_a_file_that_cannot_be_read_is_compared_as_a_whole(unreadable: str) -> None:
    report = check_onnx(unreadable)
    assert report.ok, str(report)
    assert report.reference == "onnxruntime without optimizations"
    assert {c.check for c in report.cells[""].comparisons} == {"rounding"}
    note = report.notes[-1]
    assert note.startswith("Cells unknown: ")
    assert "com.microsoft.Inverse" in note
    assert "by rounding only" in note
    result = invoked("run", unreadable)
    assert result.exit_code == 0
    assert "Cells unknown" in result.output


def test_two_of_them_are_compared_output_by_output(unreadable: str, tmp_path: Path) -> None:
    assert compare_onnx(unreadable, unreadable).ok
    assert compare_onnx(unreadable, changed_file(unreadable, tmp_path / "order.onnx", another_order)).ok
    # by name, wherever they stand
    assert compare_onnx(unreadable, changed_file(unreadable, tmp_path / "exchanged.onnx", outputs_exchanged)).ok
    report = compare_onnx(unreadable, changed_file(unreadable, tmp_path / "weight.onnx", a_weight))
    assert {c.tensor for c in report.cells[""].failures} == {"z"}
    assert invoked("compare", unreadable, str(tmp_path / "weight.onnx")).exit_code == 1


def test_one_of_them_is_compared_with_one_that_can_be_read(tmp_path: Path) -> None:
    readable = "net (float[n, 8] x) => (float[n, 16] y) { h = MatMul(x, w)\n y = Tanh(h) }"
    hidden = """net (float[n, 8] x) => (float[n, 16] y) {
        h = MatMul(x, w)
        t = Tanh(h)
        i = com.microsoft.Inverse(identity)
        y = MatMul(t, i)
    }"""
    identity = np.eye(16, dtype=np.float32)
    first = written(tmp_path / "first.onnx", readable, w=WEIGHT)
    second = written(tmp_path / "second.onnx", hidden, w=WEIGHT, identity=identity)
    wrong = written(tmp_path / "wrong.onnx", hidden, w=OTHER, identity=identity)
    for reference, candidate, ok in ((first, second, True), (second, first, True), (first, wrong, False)):
        report = compare_onnx(reference, candidate)
        assert report.ok is ok, str(report)
        assert any("Cells unknown" in note for note in report.notes)


def test_what_onnxruntime_does_not_run_either_is_refused(tmp_path: Path) -> None:
    graph = "net (float[n, 8] x) => (float[n, 8] y) { y = com.microsoft.NoSuchOperator(x) }"
    path = written(tmp_path / "a.onnx", graph)
    with pytest.raises(ConversionError, match="NoSuchOperator"):
        check_onnx(path)
    assert invoked("run", path).exit_code == 3


@pytest.mark.parametrize("location", ["/dev/zero", "../secret.bin", "link", "pipe", ".", "{secret}"])
def test_data_outside_of_the_folder_are_not_read_by_onnxruntime_either(tmp_path: Path, location: str) -> None:
    """Tensors of a branch that can't be read, behind an operator that can't be: only ONNX Runtime looks at them."""
    folder, secret = tmp_path / "model", tmp_path / "secret.bin"
    folder.mkdir()
    floats(3).tofile(secret)
    floats(3).tofile(folder / "inside.bin")
    (folder / "link").symlink_to(secret)
    os.mkfifo(folder / "pipe")

    def file(where: str) -> str:
        tensor = onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=where)
        q, x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "qxy")
        branch = helper.make_graph([helper.make_node("Add", ["x", "w"], ["q"])], "b", [], [q], [tensor])
        nodes = [
            helper.make_node("Unsqueeze", ["x", "first"], ["row"]),
            helper.make_node("CDist", ["row", "row"], ["d"], domain="com.microsoft", metric="euclidean"),
            helper.make_node("ReduceSum", ["d"], ["s"], keepdims=0),
            helper.make_node("Cast", ["s"], ["c"], to=onnx.TensorProto.BOOL),
            helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        ]
        first = numpy_helper.from_array(np.array([0]), "first")
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph(nodes, "g", [x], [y], [first])
        path = folder / "m.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
        return str(path)

    assert check_onnx(file("inside.bin")).ok
    with pytest.raises(ConversionError):
        check_onnx(file(location.format(secret=secret)))
