"""Two files that declare different sizes for their inputs, or that are frozen at one inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.runtime import UsageError

OPEN = ("batch", "length")
Shape = Sequence[int | str]


def file(path: Path, shape: Shape, frozen: int = 0, name: str = "x") -> str:
    """Write a ReLU of an input of this shape; `frozen` is a length that a Reshape inside needs."""
    last = helper.make_node("Reshape", ["r", "s"], ["y"]) if frozen else helper.make_node("Identity", ["r"], ["y"])
    constants = [helper.make_tensor("s", TensorProto.INT64, [2], [-1, frozen])] if frozen else []
    x, y = (helper.make_tensor_value_info(value, TensorProto.FLOAT, shape) for value in (name, "y"))
    graph = helper.make_graph([helper.make_node("Relu", [name], ["r"]), last], "g", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("name", ["x", "z"])  # paired by name or by position
@pytest.mark.parametrize(
    ("candidate", "frozen", "reason"),
    [
        (("batch", 7), 0, "declares axis 1 of x as 7, and the reference takes any size (length)"),
        ((1, "length"), 0, "declares axis 0 of x as 1, and the reference takes any size (batch)"),
        ((2, 7), 0, "declares axis 0 of x as 2"),
        (OPEN, 7, "declares any size, and doesn't run at batch=2, length=5, where the reference does"),
    ],
)
def test_a_candidate_that_fixes_an_open_axis_fails(
    candidate: Shape, frozen: int, reason: str, name: str, tmp_path: Path
) -> None:
    reference = file(tmp_path / "open.onnx", OPEN)
    fixed = file(tmp_path / "fixed.onnx", candidate, frozen, name)
    report = compare_onnx(reference, fixed, probe=False)
    assert report.failed
    assert {c.kind for c in report.cells[""].failures} == {"call"}, "at the sizes that both take, they agree"
    assert report.cells[""].failures[0].reason.startswith(reason)
    assert any(c.kind == "output" for c in report.cells[""].comparisons)
    given = {"x": (1 if candidate[0] == 1 else 2, 7)}
    assert compare_onnx(reference, fixed, shapes=given, probe=False).ok


@pytest.mark.parametrize(
    ("reference", "candidate", "note"),
    [
        (("batch", 7), OPEN, "axis 1 of x was compared at 7 alone, which the reference fixes"),
        (OPEN, OPEN[::-1], "the open axes of x are named batch, length in the reference and length, batch in the"),
        (OPEN, ("n", "t"), ""),
        ((2, 7), (2, 7), ""),
    ],
)
def test_other_differences_are_noted(reference: Shape, candidate: Shape, note: str, tmp_path: Path) -> None:
    report = compare_onnx(file(tmp_path / "a.onnx", reference), file(tmp_path / "b.onnx", candidate), probe=False)
    assert report.ok, str(report)
    about_axes = [text for text in report.notes if "ax" in text]
    assert len(about_axes) == bool(note)
    assert all(text.startswith(note) for text in about_axes)


def test_different_fixed_sizes_are_refused(tmp_path: Path) -> None:
    files = [file(tmp_path / f"{n}.onnx", ("batch", n)) for n in (7, 8)]
    with pytest.raises(UsageError, match=r"axis 1 of x is declared as 7 in the reference and 8 in the candidate"):
        compare_onnx(*files)


def with_output(path: Path, shape: Shape, inputs: Shape = OPEN) -> str:
    """Write the same network with these declared sizes of its output."""
    written = file(path, inputs)
    model = onnx.load(written)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
    onnx.save(model, written)
    return written


@pytest.mark.parametrize(
    ("shape", "inputs", "reason"),
    [
        (("batch", 7), OPEN, "declares axis 1 of its output y as 7, and computes any size there"),
        ((2, 8), (2, 7), "declares axis 1 of its output y as 8, and the reference as 7"),
    ],
)
def test_a_candidate_that_declares_other_outputs_fails(
    shape: Shape, inputs: Shape, reason: str, tmp_path: Path
) -> None:
    reference = with_output(tmp_path / "a.onnx", inputs, inputs)
    report = compare_onnx(reference, with_output(tmp_path / "b.onnx", shape, inputs), probe=False)
    assert report.failed
    assert any(c.reason.startswith(reason) for c in report.cells[""].failures), str(report)


@pytest.mark.parametrize(
    ("shape", "inputs", "note"),
    [
        (("n", "t"), OPEN, ""),
        (
            ("batch", 8),
            ("batch", 7),
            "the reference declares axis 1 of its output y as 8, and the candidate computes 7",
        ),
        (("batch", "t"), ("batch", 7), "declares axis 1 of its output y as 7, and the reference as open"),
    ],
)
def test_a_reference_that_declares_other_outputs_is_noted(
    shape: Shape, inputs: Shape, note: str, tmp_path: Path
) -> None:
    reference = with_output(tmp_path / "a.onnx", shape, inputs)
    report = compare_onnx(reference, with_output(tmp_path / "b.onnx", inputs, inputs), probe=False)
    assert report.ok, str(report)
    about_outputs = [text for text in report.notes if "output y" in text]
    assert len(about_outputs) == bool(note)
    assert all(note in text for text in about_outputs)


@pytest.mark.parametrize(("shape", "alone"), [((2, 7), True), (("batch", 7), False), (OPEN, False)])
@pytest.mark.every(2)
def test_a_verdict_on_fixed_files_names_their_sizes(shape: Shape, alone: bool, tmp_path: Path) -> None:
    files = [file(tmp_path / f"{n}.onnx", shape) for n in range(2)]
    sentence = compare_onnx(*files, probe=False).sentence
    assert sentence.startswith("Parity holds at the declared sizes alone: " if alone else "Parity holds: ")
    assert compare_onnx(*files, shapes={"x": (2, 7)}, probe=False).sentence.startswith("Parity holds: ")


def averaged(path: Path, *, by: float = 0, length: int | str = 7, frozen: bool = False) -> str:
    """Write the mean along the length, or the sum divided by a number; `frozen` adds a table of 7 positions."""
    nodes = [helper.make_node("ReduceMean", ["a"], ["y"], axes=[1])]
    if by:
        nodes = [helper.make_node("ReduceSum", ["a", "axes"], ["s"]), helper.make_node("Div", ["s", "n"], ["y"])]
    nodes.insert(0, helper.make_node("Add", ["x", "table"], ["a"]))
    table = [0.5] * (7 if frozen else 1)
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
        helper.make_tensor("n", TensorProto.FLOAT, [], [by]),
        helper.make_tensor("table", TensorProto.FLOAT, [len(table)], table),
    ]
    used = {name for node in nodes for name in node.input}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, n]) for name, n in (("x", length), ("y", 1)))
    graph = helper.make_graph(nodes, "g", [x], [y], [constant for constant in constants if constant.name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_fixed_files_are_tried_at_a_size_that_neither_declares(tmp_path: Path) -> None:
    good, bad = averaged(tmp_path / "good.onnx"), averaged(tmp_path / "bad.onnx", by=7)
    report = compare_onnx(good, bad)
    assert report.sentence.startswith("Parity holds at the declared sizes alone, and not at 9 in place of 7: ")
    assert "at 9 in place of 7, which neither file declares, the results of both in ONNX Runtime differ" in report.notes
    sound = compare_onnx(good, averaged(tmp_path / "same.onnx"))
    assert sound.sentence.startswith("Parity holds at the declared sizes alone: ")
    assert any(note.startswith("at 9 in place of 7") and note.endswith("agree, too") for note in sound.notes)
    frozen = compare_onnx(*(averaged(tmp_path / f"{n}.onnx", by=n, frozen=True) for n in (0, 7)))
    assert frozen.sentence.startswith("Parity holds at the declared sizes alone: ")
    assert not any("in place of 7" in note for note in frozen.notes)
