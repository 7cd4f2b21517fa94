"""A float32 file compared with onnxruntime.quantization's result: right files pass, faults are found at a Cell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.cli import main
from cellbridge.parity.report.report import Report
from cellbridge.runtime.errors import CellbridgeError
from tests.parity.quantizing import KINDS, changed, float_file, quantized_file, stored
from tests.parity.test_report_schema import VALIDATOR


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("quantized")
    source = float_file(folder / "float.onnx")
    return {"float": source} | {kind: quantized_file(source, folder / f"{kind}.onnx", kind) for kind in KINDS}


FEW = ("qdq per channel", "qoperator", "dynamic per channel")
MOST = [kind if kind in FEW else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
ONE = [kind if kind == FEW[0] else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]


def reasons(report: Report) -> str:
    return "\n".join(c.reason for cell in report.cells.values() for c in cell.failures)


@pytest.mark.parametrize("kind", MOST)
@pytest.mark.every(3)
def test_a_right_file_passes_cell_by_cell(files: dict[str, str], kind: str) -> None:
    report = compare_onnx(files["float"], files[kind])
    assert report.ok, str(report)
    assert {"conv", "head.0", "head.3", "head.4"} <= {path for path, cell in report.cells.items() if cell.comparisons}
    assert not any("as a whole" in note for note in report.notes)
    VALIDATOR.validate(json.loads(json.dumps(report.to_dict())))


@pytest.mark.parametrize("kind", ONE)
def test_weights_are_told_in_steps(files: dict[str, str], kind: str) -> None:
    report = compare_onnx(files["float"], files[kind], grads=False)
    weights = [c for c in report.cells["head.3"].comparisons if c.check == "quantization" and c.kind == "parameter"]
    assert weights
    assert all(0 < c.ratio <= 0.5 == c.allowed for c in weights if "weight" in c.tensor)


def test_values_between_weights_are_told_in_steps(files: dict[str, str]) -> None:
    report = compare_onnx(files["float"], files["qdq per channel"], grads=False)
    steps = [c for c in report.cells["head.3"].comparisons if c.kind == "quantizer"]
    assert {c.feeding for c in steps} == {"isolated", "end to end"}
    assert all(0 < c.ratio < 20 for c in steps)
    assert "× expected" in str(report)


@pytest.mark.slow
def test_the_order_of_the_files_does_not_matter(files: dict[str, str]) -> None:
    report = compare_onnx(files["qdq"], files["float"])
    assert report.ok
    assert report.reference == files["float"]
    right = files["qdq"]
    wrong = changed(right, Path(right).parent / "w.onnx", head__0__weight_scale=lambda a: a * 1.1)
    assert not compare_onnx(wrong, files["float"]).ok


FAULTS: dict[str, Any] = {
    "scale": {"head__3__weight_scale": lambda a: a * 1.02},
    "zero point": {"head__3__weight_zero_point": lambda a: a + 1},
    "scales of other channels": {"head__3__weight_scale": lambda a: np.roll(a, 1)},
    "one code": {"head__3__weight_quantized": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 9, a + 2, a)},
}


@pytest.mark.parametrize("kind", ONE)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.every(3)
def test_a_fault_is_found_at_its_cell(files: dict[str, str], tmp_path: Path, kind: str, fault: str) -> None:
    if fault == "scales of other channels" and "per channel" not in kind:
        return
    if kind == "qoperator per channel" and stored(files[kind])["head.3.weight_scale"].size == 1:
        return
    path = changed(files[kind], tmp_path / "fault.onnx", **FAULTS[fault])
    report = compare_onnx(files["float"], path, grads=False)
    assert report.failing == ["head.3"], str(report)
    assert "steps of" in reasons(report)


@pytest.mark.parametrize("kind", ONE)
@pytest.mark.parametrize("whole", [False, True], ids=["codes", "codes and scales"])
@pytest.mark.every(2)
def test_weights_that_are_exchanged_are_found(files: dict[str, str], tmp_path: Path, kind: str, whole: bool) -> None:
    tensors = stored(files[kind])
    changes = {}
    for part in ("quantized", *(("scale", "zero_point") if whole else ())):
        first, last = (tensors[f"head.{number}.weight_{part}"] for number in (0, 3))
        changes |= {f"head__0__weight_{part}": lambda _, a=last: a, f"head__3__weight_{part}": lambda _, a=first: a}
    report = compare_onnx(files["float"], changed(files[kind], tmp_path / "fault.onnx", **changes), grads=False)
    assert set(report.failing) == {"head.0", "head.3"}, str(report)


def test_the_axis_of_the_scales_is_checked(files: dict[str, str], tmp_path: Path) -> None:
    model = onnx.load(files["qdq per channel"])
    (node,) = (
        n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == "head.3.weight_quantized"
    )
    (axis,) = (a for a in node.attribute if a.name == "axis")
    axis.i = 1 - axis.i
    onnx.save(model, tmp_path / "axis.onnx")
    assert compare_onnx(files["float"], str(tmp_path / "axis.onnx"), grads=False).failing == ["head.3"]


def test_the_scale_of_values_that_a_layer_takes_is_checked(files: dict[str, str], tmp_path: Path) -> None:
    path = changed(files["qdq"], tmp_path / "fault.onnx", layer_norm_scale=lambda a: a * 1.3)
    report = compare_onnx(files["float"], path, grads=False)
    assert report.failing == ["head.3"]
    assert "layer_norm_scale" in reasons(report)


@pytest.mark.parametrize("factor", [1 / 16, 16])
@pytest.mark.every(2)
def test_a_scale_that_stands_apart_from_the_others_is_wrong(
    files: dict[str, str], tmp_path: Path, factor: float
) -> None:
    path = changed(files["qdq"], tmp_path / "fault.onnx", gelu_scale=lambda a: a * factor)
    report = compare_onnx(files["float"], path, grads=False)
    assert "head.1" in report.failing, str(report)
    assert "its scale is" in reasons(report)


def test_an_operator_that_is_left_out_is_found(files: dict[str, str], tmp_path: Path) -> None:
    model = onnx.load(files["qdq"])
    (gelu,) = (node for node in model.graph.node if node.op_type == "Gelu")
    gelu.op_type = "Tanh"
    del gelu.attribute[:]
    onnx.save(model, tmp_path / "fault.onnx")
    assert "head.1" in compare_onnx(files["float"], str(tmp_path / "fault.onnx")).failing


def test_inputs_beyond_the_calibrated_range_are_no_parity(files: dict[str, str], tmp_path: Path) -> None:
    for size, ok in ((1.0, True), (30.0, False)):
        x = np.random.default_rng(3).standard_normal((2, 3, 6, 6)).astype(np.float32) * size
        np.savez(tmp_path / "x.npz", x=np.clip(x, -3 * size, 3 * size))
        report = compare_onnx(files["float"], files["qdq"], inputs=str(tmp_path / "x.npz"))
        assert report.ok == ok, str(report)
    assert "beyond the range" in reasons(report)


@pytest.mark.parametrize("kind", ONE)
def test_a_quantized_file_agrees_with_itself(files: dict[str, str], kind: str) -> None:
    report = check_onnx(files[kind])
    assert report.ok, str(report)


def test_the_exit_codes(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(files["qdq"], tmp_path / "fault.onnx", head__3__weight_scale=lambda a: a * 2)
    monkeypatch.chdir(tmp_path)  # a long path is a long line
    wrong = "fault.onnx"
    shutil.copy(files["float"], "float.onnx")
    assert CliRunner().invoke(main, ["compare", files["float"], files["qdq"], "--no-grad"]).exit_code == 0
    result = CliRunner().invoke(main, ["compare", "float.onnx", wrong, "--no-grad"])
    assert result.exit_code == 1
    assert "steps of its quantizer; up to 0.5 passes" in result.output
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_an_operator_without_a_float_form_is_named(files: dict[str, str], tmp_path: Path) -> None:
    model = onnx.load(files["dynamic"])
    for node in model.graph.node:
        if node.op_type == "MatMulInteger":
            node.op_type, node.domain = "DynamicQuantizeMatMul", "com.microsoft"
    onnx.save(model, tmp_path / "other.onnx")
    result = CliRunner().invoke(main, ["compare", files["float"], str(tmp_path / "other.onnx")])
    assert result.exit_code == 3
    assert "DynamicQuantizeMatMul" in result.output


def quantizers(model: onnx.ModelProto) -> list[int]:
    """Four of the nodes that have to do with codes, by their places."""
    prefixes = ("QLinear", "QGemm", "MatMulInteger", "ConvInteger", "Quantize", "Dequantize", "DynamicQuantize")
    positions = [i for i, node in enumerate(model.graph.node) if node.op_type.startswith(prefixes)]
    return positions[:: max(1, len(positions) // 4)]


def activations(model: onnx.ModelProto) -> list[int]:
    return [i for i, node in enumerate(model.graph.node) if node.op_type in ("Relu", "Clip")][:1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(6)
def test_operands_and_results_that_are_left_out_are_errors_of_ours(
    files: dict[str, str], kind: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "changed.onnx")
    for name, places in ((kind, quantizers), ("float", activations)):
        for at in places(onnx.load(files[name])):
            for part in ("input", "output"):
                model = onnx.load(files[name])
                node = model.graph.node[at]
                if part == "input":
                    del node.input[1 if len(node.input) > 1 else 0 :]
                else:
                    del node.output[:]
                onnx.save(model, target)
                given = files | {name: target}
                with pytest.raises(CellbridgeError):
                    compare_onnx(given["float"], given[kind], grads=False)
