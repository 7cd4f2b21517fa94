"""`parity export --int8`: a file is written if both steps to it are right, and its errors are told."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main
from cellbridge.parity.inputs.onnx_inputs import read_declared_inputs
from cellbridge.parity.jobs.deployment import quantizing
from cellbridge.parity.jobs.deployment.calibration import Calibration, read_calibration
from cellbridge.parity.jobs.deployment.errors import Outputs
from cellbridge.parity.jobs.deployment.sensitivity import Budget, Sensitivity
from cellbridge.parity.results.quantization_costs import Errors
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ConversionError
from tests.parity.quantizing import changed

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 4)
        with torch.no_grad():
            self.second.weight[3] *= 300  # a channel that leaves few steps to the others

    def forward(self, x):
        h = torch.relu(self.second(torch.relu(self.first(x))))
        return self.head(h)


def model():
    return Net()


def inputs():
    return (torch.randn(5, 8),)


def loss(outputs):
    return outputs.square().mean()
"""

RIGHT = quantizing.quantize


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(NET)
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).standard_normal((6, 5, 8)).astype(np.float32))
    return path


def export(net: Path, *options: str, calibrate: bool = True) -> Result:
    data = ["--calibrate", str(net.with_name("data.npz"))] if calibrate else []
    return CliRunner().invoke(main, ["export", str(net), "-o", str(net.with_name("q.onnx")), "--int8", *data, *options])


def operators(net: Path) -> list[str]:
    onnx.checker.check_model(str(net.with_name("q.onnx")))
    return [node.op_type for node in onnx.load(net.with_name("q.onnx")).graph.node]


def test_with_calibration_activations_have_8_bits_too(net: Path) -> None:
    done = export(net)
    assert done.exit_code == 0, done.output
    assert operators(net).count("QuantizeLinear") >= 3
    assert "Parity holds: quantized.onnx" in done.output
    words = " ".join(done.output.split())
    assert re.search(r"On 6 samples, in float32: .* with all Cells in 8 bits: .* ms, the outputs differ", words)
    assert re.search(r"wrote .*q\.onnx, [0-9.]+ MB, \d+% of the", done.output)


@pytest.mark.slow
def test_without_calibration_activations_are_quantized_as_they_come(net: Path) -> None:
    done = export(net, calibrate=False)
    assert done.exit_code == 0, done.output
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= set(operators(net))
    result = run_model(onnx.load(net.with_name("q.onnx")), {"x": np.ones((5, 8), np.float32)})
    assert np.isfinite(next(iter(result.values()))).all()


def test_no_check_writes_it_without_a_verdict(net: Path) -> None:
    done = export(net, "--no-check")
    assert done.exit_code == 0, done.output
    assert "Parity" not in done.output
    assert "unchecked" in done.output


@pytest.mark.slow
def test_the_costs_of_cells(net: Path) -> None:
    done = export(net, "--sensitivity")
    assert done.exit_code == 0, done.output
    head = done.output.index("Cell   ")
    rows = {words[0]: words[1:] for words in map(str.split, done.output[head:].splitlines()[1:4])}
    assert rows.keys() == {"first", "second", "head"}
    assert all(row[0].endswith("%") and row[2][0] in "+-" for row in rows.values())
    assert sum(float(row[1].rstrip("%")) for row in rows.values()) == pytest.approx(100, abs=1)
    assert rows["second"][3] == "1,056"


@pytest.mark.slow
def test_a_budget_keeps_cells_in_float32(net: Path) -> None:
    everything = export(net)
    match = re.search(r"by\s+([0-9.]+)% of their\s+norm", everything.output)
    assert match is not None
    error = float(match[1])
    done = export(net, "--budget", f"outputs {error * 0.9:.4f}%")
    assert done.exit_code == 0, done.output
    assert "kept in float32, for the budget" in done.output
    kept = sum(
        f"{name}.weight" in str(onnx.load(net.with_name("q.onnx")).graph) for name in ("first", "second", "head")
    )
    assert kept
    assert "Parity holds: quantized.onnx" in done.output


def test_a_budget_that_holds_changes_nothing(net: Path) -> None:
    done = export(net, "--budget", "top1 100%")
    assert done.exit_code == 0, done.output
    assert "kept in float32" not in done.output


def test_a_budget_that_no_file_holds(net: Path) -> None:
    done = export(net, "--budget", "outputs 0%")
    assert done.exit_code == 2
    assert "doesn't hold with any Cell in 8 bits" in done.output
    assert not net.with_name("q.onnx").exists()


def _with_a_wrong_zero_point(source: Path, target: Path, calibration: Calibration | None, *more: object) -> None:
    RIGHT(source, target, calibration)
    name = next(t.name for t in onnx.load(target).graph.initializer if t.name == "relu_zero_point")
    changed(str(target), target, **{name: lambda a: a + 60})


def _with_a_wrong_scale(source: Path, target: Path, calibration: Calibration | None, *more: object) -> None:
    RIGHT(source, target, calibration)
    name = next(t.name for t in onnx.load(target).graph.initializer if t.name.endswith("_scale") and "weight" in t.name)
    changed(str(target), target, **{name.replace(".", "__"): lambda a: a * 1.1})


@pytest.mark.parametrize("fault", [_with_a_wrong_zero_point, _with_a_wrong_scale])
@pytest.mark.every(2)
def test_a_wrong_quantization_is_not_written(net: Path, monkeypatch: pytest.MonkeyPatch, fault: object) -> None:
    monkeypatch.setattr(quantizing, "quantize", fault)
    done = export(net)
    assert done.exit_code == 1, done.output
    assert "was not written, since parity fails" in done.output
    assert not net.with_name("q.onnx").exists()


def test_what_the_quantizer_refuses(net: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(ConversionError, match=r"onnxruntime\.quantization can't quantize the model"):
        quantizing.quantize(tmp_path / "empty.onnx", tmp_path / "q.onnx", None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--int8", "--fp16"], "each chooses the number format of the file"),
        (["--bf16", "--fp16"], "each chooses the number format of the file"),
        (["--calibrate", "data.npz"], "--calibrate needs --int8 or --int4"),
        (["--int8", "--sensitivity"], "--sensitivity needs --calibrate FILE: errors are measured on its inputs"),
        (["--int8", "--budget", "loss 1%"], "--budget needs --calibrate FILE: errors are measured on its inputs"),
        (["--int8", "--calibrate", "none.npz"], "no such file: none.npz"),
        (["--int8", "--calibrate", "data.npz", "--budget", "1%"], "needed 'outputs', 'loss' or 'top1' and a share"),
        (["--int8", "--training-step"], "--training-step can't be combined with --int8"),
    ],
)
def test_wrong_options(net: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str) -> None:
    monkeypatch.chdir(net.parent)
    done = CliRunner().invoke(main, ["export", "small.py", "-o", "q.onnx", *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not net.with_name("q.onnx").exists()


def test_a_budget_of_a_loss_needs_one(net: Path) -> None:
    net.write_text(NET.replace("def loss", "def other"))
    done = export(net, "--budget", "loss 1%")
    assert done.exit_code == 2
    assert "--budget loss needs loss(outputs) in the model file" in done.output


def test_bfloat16(net: Path) -> None:
    done = CliRunner().invoke(main, ["export", str(net), "-o", str(net.with_name("b.onnx")), "--bf16"])
    assert done.exit_code == 0, done.output
    types = {tensor.data_type for tensor in onnx.load(net.with_name("b.onnx")).graph.initializer}
    assert onnx.TensorProto.BFLOAT16 in types


@pytest.fixture
def measured(net: Path, tmp_path: Path) -> Sensitivity:
    assert export(net, "--no-check").exit_code == 0
    source = tmp_path / "float.onnx"
    done = CliRunner().invoke(main, ["export", str(net), "-o", str(source), "--no-check", "--opset", "20"])
    assert done.exit_code == 0
    data = read_calibration(str(tmp_path / "data.npz"), read_declared_inputs(str(source)).values)
    return Sensitivity(source, tmp_path, data, Outputs.of(source, data, lambda y: y.square().mean()))


def test_errors_are_those_of_the_outputs(measured: Sensitivity) -> None:
    assert measured.outputs.errors(measured.source) == Errors(0.0, 0.0, 0.0)
    quantizing.quantize(measured.source, measured.folder / "q.onnx", measured.calibration)
    errors = measured.outputs.errors(measured.folder / "q.onnx")
    model = onnx.load(measured.folder / "q.onnx")
    quantized = np.stack([next(iter(run_model(model, sample).values())) for sample in measured.calibration])
    exact = np.stack([outputs[0] for outputs in measured.outputs.expected])
    assert errors.outputs == pytest.approx(np.linalg.norm(quantized - exact) / np.linalg.norm(exact), rel=1e-4)
    assert errors.top1 == pytest.approx((quantized.argmax(-1) != exact.argmax(-1)).mean())
    mean = [float((x.astype(np.float64) ** 2).mean(axis=(1, 2)).sum()) for x in (exact, quantized)]
    assert errors.loss == pytest.approx(mean[1] / mean[0] - 1, abs=1e-5)


def test_the_budget_is_kept_by_the_file_that_is_written(measured: Sensitivity, tmp_path: Path) -> None:
    from cellbridge.parity.support.progress import NoProgress

    costs = measured.costs(NoProgress())
    assert [cost.path for cost in costs] == [cost.path for cost in sorted(costs, key=lambda cost: -cost.errors.outputs)]
    budget = Budget("outputs", costs[0].errors.outputs * 0.9)
    tried = measured.within(budget, costs, tmp_path / "best.onnx", NoProgress())
    assert tried[-1].errors.outputs <= budget.largest
    assert measured.outputs.errors(tmp_path / "best.onnx") == tried[-1].errors
    assert costs[0].path in tried[-1].kept


def test_weights_of_4_bits(tmp_path: Path) -> None:
    path = tmp_path / "wide_model.py"
    path.write_text(
        "import torch\n\ndef model():\n    torch.manual_seed(0)\n    return torch.nn.Linear(64, 70)\n\n"
        "def inputs():\n    return (torch.randn(2, 7, 64),)\n"
    )
    np.savez(tmp_path / "data.npz", input=np.random.default_rng(0).standard_normal((4, 2, 7, 64)).astype(np.float32))
    output = tmp_path / "q.onnx"
    run = ["export", str(path), "-o", str(output), "--int4"]
    done = CliRunner().invoke(main, [*run, "--calibrate", str(tmp_path / "data.npz")])
    assert done.exit_code == 0, done.output
    assert "with all Cells in 4 bits:" in done.output
    assert [node.op_type for node in onnx.load(output).graph.node] == ["MatMulNBits", "Add"]
    done = CliRunner().invoke(main, [*run, "--int8"])
    assert done.exit_code == 2
    assert "each chooses the number format of the file" in done.output
    done = CliRunner().invoke(main, [*run, "--calibrate", str(tmp_path / "data.npz"), "--sensitivity"])
    assert done.exit_code == 2
