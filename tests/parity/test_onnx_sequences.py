"""ONNX files whose inputs or outputs are sequences and optionals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from cellbridge import converter
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.cli import main
from cellbridge.parity.results.comparison import FAIL
from cellbridge.runtime.errors import ConversionError, UsageError
from tests.converter.test_onnx_in import model

TWICE = [
    "net (float[4] x) => (seq(float[4]) y) { y = SequenceConstruct(x, x) }",
    "net (float[4] x) => (seq(float[4]) y) { a = Exp(x)  y = SequenceConstruct(a, x, a, a) }",
    "net (float[4] x) => (seq(float[4]) y, float[4] a) { a = Exp(x)  y = SequenceConstruct(a, a) }",
]


@pytest.mark.parametrize("graph", TWICE)
@pytest.mark.every(3)
def test_a_tensor_that_is_returned_more_than_once_has_the_gradient_of_each(graph: str, tmp_path: Path) -> None:
    made, path = model(graph), str(tmp_path / "a.onnx")
    onnx.save(made, path)
    report = check_onnx(path)
    assert report.ok, str(report)
    assert compare_onnx(path, path).ok
    program = converter.from_onnx(made)
    x, count = np.zeros(4, np.float32), len(program.outputs)
    cotangents = [np.full(4, 10.0**i, np.float32) for i in range(count)]
    _, gradients = program.value_and_grad(x, cotangents=cotangents)
    np.testing.assert_allclose(gradients.inputs[0], sum(cotangents))


def saved(graph: str, path: Path, opset: int = 18) -> str:
    onnx.save(model(graph, opset), path)
    return str(path)


JOINED = "net (seq(float[n, 3]) s) => (float[m, 3] y) { t = ConcatFromSequence<axis = 0>(s)  y = Exp(t) }"
OPTIONAL = """net (float[n, 3] x, optional(float[n, 3]) s) => (float[n, 3] y) {
    given = OptionalHasElement(s)
    u = If(given) <then_branch = a () => (float[n, 3] u) { u = OptionalGetElement(s) },
                   else_branch = b () => (float[n, 3] v) { v = Exp(x) }>
    y = Add(x, u)
}"""
OPTIONAL_SEQUENCE = """net (optional(seq(float[n, 3])) s) => (optional(seq(float[n, 3])) z, int64 y) {
    z = Identity(s)
    given = OptionalHasElement(s)
    y = If(given) <then_branch = a () => (int64 u) { t = OptionalGetElement(s)  u = SequenceLength(t) },
                   else_branch = b () => (int64 v) { v = Constant<value_int = 0>() }>
}"""


def test_a_sequence_is_a_list_of_as_many_tensors_as_shapes_are_given() -> None:
    made, x = model(JOINED), np.ones((1, 3), np.float32)
    np.testing.assert_allclose(converter.from_onnx(made)([x, 2 * x]), np.exp(np.concatenate([x, 2 * x])))
    shapes = {"s[0]": (1, 3), "s[1]": (2, 3), "s[2]": (1, 3)}
    program = converter.from_onnx(made, shapes=shapes)
    assert [value.shape for value in program.inputs] == list(shapes.values())
    y, gradients = program.value_and_grad([x, np.ones((2, 3), np.float32), x])
    assert y.shape == (4, 3)
    assert [g.shape for g in gradients.inputs if g is not None] == list(shapes.values())
    assert [value.shape for value in converter.from_onnx(made, shapes={"s": (4, 3)}).inputs] == [(4, 3)] * 2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"s[1]": (1, 3)}, r"1 items are given, but s\[0\] is missing"),
        ({"s[0]": (1, 4)}, r"can't have the shape \[1, 4\]"),
        ({"s[99999999999999999999]": (1, 3)}, r"s\[0\] is missing"),
        ({"s": None}, "isn't optional"),
        ({"t[0]": (1, 3)}, r"no input 't\[0\]': it takes s\[0\], s\[1\]"),
    ],
)
def test_shapes_of_no_sequence_that_there_is(shapes: dict[str, tuple[int, ...] | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        converter.from_onnx(model(JOINED), shapes=shapes)


def test_a_tensor_may_not_be_named_as_an_item() -> None:
    graph = "net (seq(float[n]) s, float[n] q) => (float[n] y) { t = ConcatFromSequence<axis = 0>(s)  y = Add(t, q) }"
    made = model(graph)
    made.graph.input[1].name = made.graph.node[1].input[1] = "s[0]"
    with pytest.raises(ConversionError, match=r"two inputs are named 's\[0\]'"):
        converter.from_onnx(made)


def test_an_optional_is_a_value_or_none() -> None:
    made, x = model(OPTIONAL), np.ones((1, 3), np.float32)
    np.testing.assert_allclose(converter.from_onnx(made)(x, 2 * x), 3 * x)
    np.testing.assert_allclose(converter.from_onnx(made, shapes={"s": None})(x, None), x + np.exp(x))
    made = model(OPTIONAL_SEQUENCE)
    assert converter.from_onnx(made, shapes={"s": None})(None) == (None, 0)
    z, y = converter.from_onnx(made)([x, x])
    assert (len(z), y) == (2, 2)


@pytest.mark.parametrize("graph", [JOINED, OPTIONAL, OPTIONAL_SEQUENCE], ids=["sequence", "optional", "both"])
@pytest.mark.every(3)
def test_sequences_and_optionals_are_judged(graph: str, tmp_path: Path) -> None:
    path = saved(graph, tmp_path / "a.onnx")
    for report in (check_onnx(path), compare_onnx(path, path)):
        assert report.ok, str(report)
        assert ("s=none" in report.sizes) == ("optional" in graph)
    renamed = saved(graph.replace("s)", "other)"), tmp_path / "b.onnx")
    assert compare_onnx(path, renamed).ok


def test_files_that_differ_without_an_optional_differ(tmp_path: Path) -> None:
    path, other_graph = saved(OPTIONAL, tmp_path / "a.onnx"), OPTIONAL.replace("Exp", "Tanh")
    report = compare_onnx(path, saved(other_graph, tmp_path / "b.onnx"))
    assert not report.ok
    assert {c.sizes for cell in report.cells.values() for c in cell.comparisons if c.status == FAIL} == {"s=none"}
    needed = (
        "net (float[n, 3] x, optional(float[n, 3]) s) => (float[n, 3] y) { u = OptionalGetElement(s) y = Add(x, u) }"
    )
    report = compare_onnx(path, saved(needed, tmp_path / "c.onnx"))
    assert "doesn't run where" in str(report)
    report = compare_onnx(saved(needed, tmp_path / "c.onnx"), path)
    assert report.ok
    assert any("not compared at s=none" in note for note in report.notes)


def test_arrays_say_what_there_is(tmp_path: Path) -> None:
    path, arrays = saved(JOINED, tmp_path / "a.onnx"), str(tmp_path / "x.npz")
    np.savez(arrays, **{f"s[{i}]": np.ones((i + 1, 3), np.float32) for i in range(3)})
    assert check_onnx(path, inputs=arrays).ok
    assert compare_onnx(path, path, inputs=arrays).ok
    np.savez(arrays, x=np.ones((2, 3), np.float32))
    path = saved(OPTIONAL, tmp_path / "b.onnx")
    report = check_onnx(path, inputs=arrays)
    assert report.ok
    assert report.sizes == []
    with pytest.raises(UsageError, match=r"takes s\[0\], s\[1\]"):
        check_onnx(saved(JOINED, tmp_path / "a.onnx"), inputs=arrays)


def test_the_command_takes_shapes_of_items_and_none(tmp_path: Path) -> None:
    runner, path = CliRunner(), saved(JOINED, tmp_path / "a.onnx")
    result = runner.invoke(main, ["run", path, "--shape", "s[0]=1,3", "--shape", "s[1]=4,3", "--shape", "s[2]=2,3"])
    assert result.exit_code == 0, result.output
    result = runner.invoke(main, ["run", path, "--shape", "s=none"])
    assert (result.exit_code, "isn't optional" in result.output) == (2, True)
    path = saved(OPTIONAL, tmp_path / "b.onnx")
    assert runner.invoke(main, ["run", path, "--shape", "s=none"]).exit_code == 0


def test_numbers_of_dimensions_that_are_not_declared_are_found(tmp_path: Path) -> None:
    made = model("net (seq(float[n]) s, float[n] x) => (float[n] y) { t = SequenceLength(s)  y = Conv(x, x) }")
    del made.graph.node[:]
    made.graph.node.extend(model("net (float[n] t) => (float[n] y) { a = ConcatFromSequence<axis = 2>(s) }").graph.node)
    made.graph.node.extend(model("net (float[n] a) => (float[n] y) { y = Mul(a, x) }").graph.node)
    made.graph.input[0].type.sequence_type.elem_type.tensor_type.ClearField("shape")
    made.graph.input[1].type.tensor_type.ClearField("shape")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    path = str(tmp_path / "a.onnx")
    onnx.save(made, path)
    with pytest.raises(ConversionError, match="no declared number of dimensions"):
        converter.from_onnx(path)
    shapes = {"s[0]": (1, 2, 3), "s[1]": (1, 2, 3), "x": (1, 2, 6)}
    assert check_onnx(path, shapes=shapes).ok
    for report in (check_onnx(path, shapes={"x": (1,)}), compare_onnx(path, path, shapes={"x": (1,)})):
        assert report.ok, str(report)


def test_what_an_input_can_not_be_is_one_message(tmp_path: Path) -> None:
    made = model("net (float[n] x) => (float[n] y) { y = Exp(x) }")
    made.graph.input[0].type.map_type.key_type = onnx.TensorProto.INT64
    onnx.save(made, tmp_path / "a.onnx")
    result = CliRunner().invoke(main, ["run", str(tmp_path / "a.onnx")])
    assert result.exit_code == 3
    assert "input 'x' is declared as map: needed a tensor" in result.output
