"""A bundle of a quantized file: bars that quantizing leaves, and a faulty file that exceeds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import numpy_helper

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.deployment.quantized_vectors import quantized_vectors
from cellbridge.parity.jobs.deployment.quantizing import quantize
from cellbridge.runtime.lowering import external_data
from tests.parity.jobs.deployment.test_bundle import TWINS, update_digests, verify

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(40, 64), nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, x):
        scores = self.last(self.norm(torch.tanh(self.first(x))))
        return {"scores": scores, "best": scores.argmax(-1)}


def model():
    return Net()


def inputs():
    return (torch.randn(2, 16, 40),)
"""


def export(folder: Path, *options: str) -> Result:
    (folder / "small.py").write_text(NET)
    data = np.random.default_rng(0).standard_normal((6, 2, 16, 40)).astype(np.float32)
    np.savez(folder / "data.npz", x=data)
    return CliRunner().invoke(main, ["export", str(folder / "small.py"), *options])


def bundle(folder: Path, *options: str) -> Path:
    done = export(folder, "--bundle", str(folder / "bundle"), *options)
    assert done.exit_code == 0, done.output
    return folder / "bundle"


def calibrate(folder: Path) -> tuple[str, str]:
    return "--calibrate", str(folder / "data.npz")


def weights(path: Path) -> list[onnx.TensorProto]:
    model = onnx.load(path)
    return [tensor for tensor in model.graph.initializer if "weight" in tensor.name and len(tensor.dims) >= 2]


@pytest.mark.every(2)
@pytest.mark.parametrize("twin", TWINS)
def test_eight_bits_are_the_same_network(tmp_path: Path, twin: str) -> None:
    folder = bundle(tmp_path, "--int8", *calibrate(tmp_path))
    done = verify(folder, twin)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scores: error" in done.stdout
    card = (folder / "README.md").read_text()
    assert "8 bits and float32" in card
    assert "twice the largest error that quantizing made\non 6 samples of calibration data" in card


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--int8",), ("--int4",)])
@pytest.mark.every(2)
def test_the_inputs_are_those_of_the_model_file_without_calibration(tmp_path: Path, options: tuple[str]) -> None:
    folder = bundle(tmp_path, *options)
    done = verify(folder, "python")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on the inputs of the model file" in (folder / "README.md").read_text()


def test_exchanged_rows_are_another_network(tmp_path: Path) -> None:
    folder = bundle(tmp_path, "--int8", *calibrate(tmp_path))
    model = onnx.load(folder / "model.onnx")
    tensor = next(initializer for initializer in model.graph.initializer if sorted(initializer.dims) == [10, 64])
    array = numpy_helper.to_array(tensor)
    axis = list(tensor.dims).index(10)
    tensor.CopyFrom(numpy_helper.from_array(np.flip(array, axis).copy(), tensor.name))
    onnx.save(model, folder / "model.onnx")
    update_digests(folder)
    done = verify(folder, "python")
    assert done.returncode == 1, done.stdout
    assert "scores" in done.stdout
    assert "<-- FAILS" in done.stdout


@pytest.mark.slow
def test_integers_that_quantizing_changes_are_left_out(tmp_path: Path) -> None:
    """In 512 rows the place of some largest element is another one."""
    text = NET.replace("torch.randn(2, 16, 40)", "torch.randn(16, 32, 40)")
    (tmp_path / "small.py").write_text(text)
    done = CliRunner().invoke(
        main, ["export", str(tmp_path / "small.py"), "--bundle", str(tmp_path / "bundle"), "--int4"]
    )
    assert done.exit_code == 0, done.output
    assert "best isn't compared: quantizing changes its integers" in " ".join(done.output.split())
    assert " best " not in (tmp_path / "bundle" / "vectors.txt").read_text()


def test_bars_are_of_the_size_of_the_error(tmp_path: Path) -> None:
    done = export(tmp_path, "-o", str(tmp_path / "float.onnx"), "--opset", "20")
    assert done.exit_code == 0, done.output
    samples = [{"x": x} for x in np.load(tmp_path / "data.npz")["x"]]
    quantize(tmp_path / "float.onnx", tmp_path / "int8.onnx", samples)
    vectors = quantized_vectors(tmp_path / "float.onnx", tmp_path / "int8.onnx", samples, 0)
    scores = next(output for output in vectors.outputs if output.name == "scores")
    assert 0 < vectors.error < 0.05
    assert 2 < scores.bar / (vectors.error * float(np.abs(scores.array).mean())) < 30
    assert [vector.name for vector in vectors.inputs] == ["x"]


def test_a_folder_that_is_there_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    done = export(tmp_path, "--bundle", str(tmp_path / "there"), "--int8")
    assert done.exit_code == 2
    assert "isn't empty" in done.output
    assert "Parity" not in done.output


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--int8",), ("--int4",), ("--int8", "calibrate")])
@pytest.mark.every(3)
def test_tensors_that_are_too_large_for_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Above 2 GB (here: 2 kB) they are in a second file, which everyone may read who may read the model."""
    monkeypatch.setattr("cellbridge.parity.jobs.deployment.quantizing.MODEL_LIMIT", 2000)
    chosen = [*options[:1], *(calibrate(tmp_path) if len(options) > 1 else ())]
    path = tmp_path / "q.onnx"
    done = export(tmp_path, "-o", str(path), *chosen)
    assert done.exit_code == 0, done.output
    data = tmp_path / "q.onnx.data"
    assert external_data.data_file(path) == data
    assert data.stat().st_mode == path.stat().st_mode
    onnx.checker.check_model(str(path))
    folder = bundle(tmp_path, *chosen)
    assert (folder / "model.onnx.data").stat().st_size == data.stat().st_size
    done_there = verify(folder, "python")
    assert done_there.returncode == 0, done_there.stdout + done_there.stderr


@pytest.mark.slow
def test_a_network_that_is_too_large_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellbridge.runtime.lowering.writing.MODEL_LIMIT", 2000)
    monkeypatch.setattr("cellbridge.parity.jobs.deployment.quantizing.MODEL_LIMIT", 2000)
    done = export(tmp_path, "-o", str(tmp_path / "q.onnx"), "--int8")
    assert done.exit_code == 2
    assert "is judged by its float32 file, of 2 GB at most" in done.output
    assert "--no-check" in done.output
    assert not (tmp_path / "q.onnx").exists()
    done = export(tmp_path, "-o", str(tmp_path / "q.onnx"), "--int8", "--no-check")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "q.onnx.data").exists()
