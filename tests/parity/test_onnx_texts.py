"""ONNX files with strings and maps as inputs or outputs, compared as a whole: classifiers with labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cellbridge import converter
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.runtime.errors import ConversionError, UsageError

DOMAIN = "ai.onnx.ml"
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
LABELS = ("setosa", "versicolor", "virginica\x1b[2J")
COEFFICIENTS = (1.0, 2.0, 3.0, -1.0, 0.5, 2.0)


def classifier(path: Path, labels: tuple[str, ...] = LABELS, coefficients: tuple[float, ...] = COEFFICIENTS) -> str:
    """A classifier as scikit-learn's are exported: a label, and a map from label to probability."""
    options = {"coefficients": coefficients, "intercepts": [0.1, 0.2, 0.3], "post_transform": "SOFTMAX"}
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["y", "s"], domain=DOMAIN, classlabels_strings=labels, **options),
        helper.make_node("ZipMap", ["s"], ["p"], domain=DOMAIN, classlabels_strings=labels),
    ]
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, number))
    outputs = [helper.make_tensor_value_info("y", TensorProto.STRING, ["n"]), helper.make_value_info("p", maps)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, ir_version=8), path)
    return str(path)


def encoder(path: Path, values: tuple[float, ...] = (1.0, 2.0)) -> str:
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain=DOMAIN, keys_strings=["left", "right"], values_floats=values
    )
    inputs = [helper.make_tensor_value_info("x", TensorProto.STRING, ["n", 9])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 9])]
    graph = helper.make_graph([node], "net", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=OPSETS, ir_version=8), path)
    return str(path)


def test_labels_and_maps_are_compared(tmp_path: Path) -> None:
    path = classifier(tmp_path / "a.onnx")
    for report in (check_onnx(path), compare_onnx(path, path)):
        assert report.ok, str(report)
        assert any(note.startswith("Cells unknown") for note in report.notes)
        assert any(note.startswith("strings were compared by numbers") for note in report.notes)
        assert "\x1b" not in str(report)


@pytest.mark.parametrize(
    ("labels", "coefficients"),
    [
        (LABELS, (1.0, 2.0, 3.0, -1.0, 0.5, 2.1)),
        ((*LABELS[:2], "other"), COEFFICIENTS),
        ((LABELS[1], LABELS[0], LABELS[2]), COEFFICIENTS),
    ],
    ids=["numbers", "another label", "exchanged"],
)
@pytest.mark.every(3)
def test_other_labels_and_numbers_are_found(
    tmp_path: Path, labels: tuple[str, ...], coefficients: tuple[float, ...]
) -> None:
    candidate = classifier(tmp_path / "b.onnx", labels, coefficients)
    assert not compare_onnx(classifier(tmp_path / "a.onnx"), candidate).ok


def test_texts_are_generated_of_those_that_the_file_knows(tmp_path: Path) -> None:
    path = encoder(tmp_path / "a.onnx")
    with pytest.raises(ConversionError, match="tensors of string"):
        converter.from_onnx(path)
    report = check_onnx(path)
    assert report.ok, str(report)
    assert any("tensors of string aren't supported" in note for note in report.notes)
    assert not compare_onnx(path, encoder(tmp_path / "b.onnx", (1.0, 3.0))).ok


def test_texts_from_a_file_of_arrays(tmp_path: Path) -> None:
    path, arrays = encoder(tmp_path / "a.onnx"), str(tmp_path / "x.npz")
    np.savez(arrays, x=np.array([["right"] * 9]))
    candidate = encoder(tmp_path / "b.onnx", (7.0, 2.0))
    assert check_onnx(path, inputs=arrays).ok
    assert compare_onnx(path, candidate, inputs=arrays).ok
    np.savez(arrays, x=np.array([["left"] * 9]))
    assert not compare_onnx(path, candidate, inputs=arrays).ok
    np.savez(arrays, x=np.zeros((1, 9), np.float32))
    with pytest.raises(UsageError, match=r"x must be text .*, given float32"):
        check_onnx(path, inputs=arrays)


def test_more_samples_than_a_few_are_compared(tmp_path: Path) -> None:
    path = encoder(tmp_path / "a.onnx")
    report = check_onnx(path)
    assert report.sizes == ["n=65"]
    assert any(c.sizes == "n=65" and c.shape == (65, 9) for cell in report.cells.values() for c in cell.comparisons)
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, tmp_path / "b.onnx")
    frozen = compare_onnx(path, str(tmp_path / "b.onnx"))
    assert not frozen.ok
    assert " as 2, and the reference takes any size (n)" in " ".join(str(frozen).split())
    assert compare_onnx(str(tmp_path / "b.onnx"), path).ok
