"""The error of each part of a quantized file, judged by what the steps of its quantizers explain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.checking.quantized import judging
from cellbridge.parity.checking.quantized.float_form import FloatForm
from cellbridge.parity.checking.quantized.parts import EXACT, PartError, Parts, dynamic_quantizer, round_on_shifted_grid
from cellbridge.parity.checking.quantized.quantizers import Quantizer
from cellbridge.parity.checking.quantized.runs import measure
from cellbridge.parity.jobs.deployment.quantizing import quantize_blocks
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import Comparison
from tests.parity.quantizing import KINDS, changed, float_file, quantized_file


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("parts")
    source = float_file(folder / "float.onnx")
    return {"float": source} | {kind: quantized_file(source, folder / f"{kind}.onnx", kind) for kind in KINDS}


@pytest.fixture(scope="module")
def in_blocks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A file with weights of 4 bits."""
    folder = tmp_path_factory.mktemp("blocks")
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(70, 48), nn.Tanh(), nn.Linear(48, 64), nn.LayerNorm(64), nn.Linear(64, 3))
    to_onnx(from_torch(layers.eval(), (torch.randn(2, 5, 70),)), folder / "float.onnx", opset=20)
    quantize_blocks(folder / "float.onnx", folder / "4 bits.onnx")
    return {"float": str(folder / "float.onnx"), "4 bits": str(folder / "4 bits.onnx")}


def errors(source: str, right: str, file: str) -> dict[str, tuple[float, float]]:
    """The errors of a file's parts and what is explained, where the network and the steps are those of `right`."""
    model, float_model = onnx.load(right), onnx.load(source)
    form = FloatForm(model, Path(right).parent, float_model, Path(source).parent)
    (value,) = model.graph.input
    shape = [dim.dim_value or 4 for dim in value.type.tensor_type.shape.dim]
    arrays = (
        np.random.default_rng(seed).standard_normal(shape).astype(np.float32).clip(-2.5, 2.5) for seed in range(4)
    )
    _, parts = measure(form, onnx.load(file), [{value.name: array} for array in arrays], "cpu")
    return {name: (part.error, part.expected_error) for name, part in parts.items()}


def require_explained(errors: dict[str, tuple[float, float]]) -> None:
    ratios = {name: actual / explained for name, (actual, explained) in errors.items() if actual}
    assert len(ratios) >= 3
    assert all(ratio < 1.6 for ratio in ratios.values()), ratios
    assert 0.6 < np.median(list(ratios.values())) < 1.3, ratios


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(6)
def test_steps_explain_the_errors_of_a_right_file(files: dict[str, str], kind: str) -> None:
    require_explained(errors(files["float"], files[kind], files[kind]))


def test_steps_explain_the_errors_of_blocks(in_blocks: dict[str, str]) -> None:
    require_explained(errors(in_blocks["float"], in_blocks["4 bits"], in_blocks["4 bits"]))


FAULTS: dict[str, tuple[str, str, Any]] = {
    "a scale of 30% more": ("qdq", "head__3__weight_scale", lambda a: a * 1.3),
    "a zero point off by one": ("qoperator", "head__0__weight_zero_point", lambda a: a + 1),
    "another order of scales": ("qdq per channel", "head__3__weight_scale", lambda a: np.roll(a, 1)),
    "a zero point of values off by two": ("qoperator", "layer_norm_zero_point", lambda a: a + 2),
}


def far_parts(source: str, right: str, wrong: str) -> set[str]:
    return {name for name, (actual, explained) in errors(source, right, wrong).items() if actual > 3 * explained}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.every(3)
def test_a_fault_that_steps_do_not_explain_is_in_its_part(files: dict[str, str], tmp_path: Path, fault: str) -> None:
    kind, tensor, change = FAULTS[fault]
    wrong = changed(files[kind], tmp_path / "wrong.onnx", **{tensor: change})
    far = far_parts(files["float"], files[kind], wrong)
    assert far
    assert far <= {"linear", "linear_1", "layer_norm"}


def test_another_scale_of_blocks_is_in_its_part(in_blocks: dict[str, str], tmp_path: Path) -> None:
    model = onnx.load(in_blocks["4 bits"])
    second = [node for node in model.graph.node if node.op_type == "MatMulNBits"][1]
    scales = second.input[2].replace(".", "__")
    wrong = changed(in_blocks["4 bits"], tmp_path / "wrong.onnx", **{scales: lambda a: a * 1.5})
    assert far_parts(in_blocks["float"], in_blocks["4 bits"], wrong) == {second.output[0]}


def test_the_report_has_the_errors_of_cells(in_blocks: dict[str, str]) -> None:
    report = compare_onnx(in_blocks["float"], in_blocks["4 bits"], grads=False)
    (part,) = (c for c in report.cells["2"].comparisons if c.kind == "quantization error")
    assert part.status == "pass"
    assert 0.5 < part.ratio < 2 < part.allowed
    assert part.error < part.bar
    assert "× expected" in str(report)
    assert "Errors in steps" not in str(report)  # no value is rounded


class Two(nn.Module):
    """x [16, 6] to [16, 4]: too few quantizers to compare their ranges with each other."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x))


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, arrays: list[Any]) -> None:
        self.rest = list(arrays)

    def get_next(self) -> dict[str, Any] | None:
        return {"x": self.rest.pop()} if self.rest else None


def two(folder: Path, factor: float) -> Report:
    """The report on a file whose results have a scale of another size."""
    arrays = [np.random.default_rng(seed).standard_normal((16, 6)).astype(np.float32) for seed in range(4)]
    to_onnx(from_torch(Two().eval(), (torch.randn(16, 6),)), folder / "float.onnx", opset=20)
    quantize_static(folder / "float.onnx", folder / "int8.onnx", Samples(arrays), quant_format=QuantFormat.QDQ)
    path = changed(str(folder / "int8.onnx"), folder / "changed.onnx", output_scale=lambda a: a * factor)
    np.savez(folder / "x.npz", x=arrays[0])
    return compare_onnx(str(folder / "float.onnx"), path, inputs=str(folder / "x.npz"), grads=False)


def test_saturated_values_are_found_by_what_they_cost(tmp_path: Path) -> None:
    report = two(tmp_path, 0.25)
    (fault,) = (c for c in report.cells["last"].comparisons if c.status == "fail" and c.kind == "quantizer")
    assert "lie beyond the range" in fault.reason
    assert "times what rounding does" in fault.reason


def test_values_a_little_beyond_the_range_are_noted(tmp_path: Path) -> None:
    report = two(tmp_path, 0.93)
    assert report.ok, str(report)
    (note,) = (note for note in report.notes if "clip values" in note)
    assert "1 of 3 tensors, output most" in note
    assert not any("clip values" in note for note in two(tmp_path, 1.0).notes)


@given(
    st.lists(st.floats(-300, 300, width=32), min_size=1, max_size=20),
    st.floats(0.0625, 4, width=32),
    st.floats(-0.5, 0.5),
)
def test_a_shifted_grid_has_steps_of_the_same_size(values: list[float], step: float, shift: float) -> None:
    numbers = np.array(values, np.float32)
    quantizer = Quantizer("scale", np.array(step), np.array(0.0), np.dtype(np.int16))
    result = round_on_shifted_grid(numbers, quantizer, shift).astype(np.float64)
    inside = np.abs(numbers) <= 32000 * step
    assert (np.abs(result - numbers)[inside] <= (0.5 + EXACT + 1e-3) * step).all()
    exact = np.array([-2.0, 0.0, 7.0], np.float32) * np.float32(step)
    assert np.allclose(round_on_shifted_grid(exact, quantizer, shift), exact, rtol=1e-6)
    assert (round_on_shifted_grid(np.array([numbers[0], numbers[0]]), quantizer, shift) == result[0]).all()


@given(st.lists(st.floats(-1e4, 1e4, width=32, allow_subnormal=False), min_size=1, max_size=20))
def test_the_dynamic_quantizer_is_that_of_onnx(values: list[float]) -> None:
    from onnx.reference.ops.op_dynamic_quantize_linear import DynamicQuantizeLinear

    numbers = np.array(values, np.float32)
    codes, scale, zero = DynamicQuantizeLinear.eval(numbers)
    quantizer = dynamic_quantizer(numbers)
    if numbers.any():
        assert np.isclose(float(quantizer.scale), float(scale), rtol=1e-5)
        assert abs(float(quantizer.zero_point) - float(zero)) <= 1
        assert (np.abs(quantizer.codes_of(numbers).astype(int) - codes.astype(int)) <= 1).all()


def part_error(values: list[float], numbers: list[float]) -> tuple[PartError, Comparison]:
    """The error of one tensor, with a step of 0.1, and the verdict."""
    parts = Parts.__new__(Parts)
    parts.errors = {"y": PartError()}
    wide = {"y": np.array(numbers, np.float32)}
    parts._add("y", np.array(values, np.float32), wide, (-np.inf, np.inf), None)
    for draw in range(4):
        parts._add("y", wide["y"] + np.float32(0.05), wide, (-np.inf, np.inf), draw)
    return parts.errors["y"], judging._part("y", parts.errors["y"], "side")


def test_what_is_infinite_in_the_float_network_is_left_out() -> None:
    error, verdict = part_error([1.03, 2.0, -1e38], [1.0, 2.0, -np.inf])
    assert error.count == 2
    assert verdict.status == "pass"


def test_what_is_not_a_number_in_the_file_alone_fails() -> None:
    assert part_error([1.0, np.nan], [1.0, 2.0])[1].status == "fail"
    assert part_error([1.0, np.inf], [1.0, 2.0])[1].status == "fail"


def test_an_error_where_no_step_explains_any_fails() -> None:
    error = PartError(count=100, squares=1.0)
    assert judging._part("y", error, "side").status == "fail"


def test_integers_are_not_measured_in_steps() -> None:
    """The place of the largest element may be another one."""
    parts = Parts.__new__(Parts)
    parts.errors = {"best": PartError()}
    parts._add("best", np.array([3]), {"best": np.array([700])}, (-np.inf, np.inf), None)
    assert parts.errors["best"].count == 0
