"""Options of `parity export`: opset, half precision, dynamic axes, external data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main
from cellbridge.runtime import optim
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.lowering import opsets
from tests.parity.models import WRONG_BACKWARD

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 300)

    def forward(self, x, scale=1.0, more=()):
        return self.fc(x) * scale + sum(more)

def model():
    return Net()

def inputs():
    return torch.ones(3, 4), 2.0, [torch.ones(1)]
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def export(net: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["export", str(net), "-o", str(net.with_name("net.onnx")), *options])


def written(net: Path) -> onnx.ModelProto:
    path = net.with_name("net.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(path)


@pytest.mark.slow
def test_opset(net: Path) -> None:
    asked = export(net, "--opset", "17")
    assert asked.exit_code == 0
    assert "note: the ONNX model is of opset 17, asked for" in asked.output
    assert written(net).opset_import[0].version == 17
    for checked in ([], ["--no-check"]):
        chosen = export(net, *checked)
        assert chosen.exit_code == 0
        version = written(net).opset_import[0].version
        assert re.search(rf"the ONNX model is of opset {version}, the\s+lowest", chosen.output)
    refused = export(net, "--opset", "99")
    assert refused.exit_code == 2
    assert f"opset must be 17 to {opsets.NEWEST}, given 99" in refused.output


@pytest.mark.parametrize("checked", [[], ["--no-check"]])
@pytest.mark.every(2)
def test_what_the_model_has_lost_is_said(net: Path, checked: list[str]) -> None:
    net.write_text(NET.replace("        return", "        assert (x == 1).all()\n        return"))
    result = export(net, *checked)
    assert result.exit_code == 0, result.output
    assert "note: the program doesn't check the values" in result.output
    assert "assert (x == 1).all()" in result.output


@pytest.mark.parametrize("checked", [[], ["--no-check"]])
@pytest.mark.every(2)
def test_half_precision(net: Path, checked: list[str]) -> None:
    result = export(net, "--fp16", *checked)
    assert result.exit_code == 0, result.output
    model = written(net)
    kinds = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    assert kinds | {tensor.data_type for tensor in model.graph.initializer} == {onnx.TensorProto.FLOAT16}


def test_a_model_that_fails_in_half_precision_is_not_written(net: Path) -> None:
    net.write_text(NET.replace("* scale", "* scale * 1e5"))
    result = export(net, "--fp16")
    assert result.exit_code != 0
    assert not net.with_name("net.onnx").exists()


def test_what_fails_is_written_as_a_page_or_the_command_for_it_printed(net: Path) -> None:
    net.write_text(NET.replace("* scale", "* scale * Doubled.apply(x).sum()") + WRONG_BACKWARD)
    page = net.with_name("report.html")
    result = export(net, "--no-probe", "--html", str(page))
    assert result.exit_code == 1, result.output
    assert "Parity fails" in page.read_text()
    assert "to look at it" not in result.output
    assert not net.with_name("net.onnx").exists()
    page.unlink()
    result = export(net, "--no-probe")
    command = f"parity export {net} -o {net.with_name('net.onnx')} --no-probe --html report.html"
    assert f"to look at it: {command}\n" in result.output
    assert "--repro" not in result.output
    assert not page.exists()


def test_the_page_of_a_sound_export_says_that_parity_holds(net: Path) -> None:
    page = net.with_name("report.html")
    result = export(net, "--no-probe", "--html", str(page))
    assert result.exit_code == 0, result.output
    assert "Parity holds" in page.read_text()
    assert written(net)
    refused = export(net, "--no-check", "--html", str(page))
    assert refused.exit_code == 2
    assert "the page shows the comparison, which is left out" in refused.output
    assert export(net, "--html", str(net)).exit_code == 2


def test_dynamic_axes(net: Path) -> None:
    result = export(net, "--dynamic", "x:0=batch")
    assert result.exit_code == 0, result.output
    model = written(net)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    inputs = {model.graph.input[0].name: np.ones((7, 4), np.float32), model.graph.input[1].name: np.ones(1, np.float32)}
    assert next(iter(run_model(model, inputs).values())).shape == (7, 300)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("x=batch", "--dynamic takes NAME:AXIS=SYMBOL, as in x:0=batch, given 'x=batch'"),
        ("y:0=batch", "the tensors that forward takes are x;"),
        ("more:0=batch", "define dynamic_shapes in the model file"),
        ("x:2=batch", "x has 2 dimensions"),
        ("x:1=features", "dynamic_shapes doesn't fit the model"),
    ],
)
def test_dynamic_axes_that_can_not_be(net: Path, option: str, message: str) -> None:
    result = export(net, "--dynamic", option)
    assert result.exit_code in (2, 3)
    assert message in result.output


def test_a_file_with_dynamic_shapes_takes_no_option(net: Path) -> None:
    net.write_text(NET + "\ndynamic_shapes = {'x': {0: torch.export.Dim('b')}, 'scale': None, 'more': [None]}\n")
    result = export(net, "--dynamic", "x:0=batch")
    assert result.exit_code == 2
    assert "defines dynamic_shapes: change them there" in result.output


def test_external_data(net: Path) -> None:
    assert export(net, "--external-data").exit_code == 0
    assert net.with_name("net.onnx.data").exists()
    written(net)


def test_what_the_program_lacks_is_told(net: Path) -> None:
    net.write_text(
        NET.replace("return self.fc(x)", "self.calls = getattr(self, 'calls', 0) + 1; x.mul_(2); return self.fc(x)")
    )
    result = export(net, "--no-check")
    assert result.exit_code == 0
    assert "note: the module changes its input 'x' in place" in result.stderr


# ---- steps of training ----


@pytest.mark.slow
def test_a_step_of_training_is_written_with_its_description(net: Path) -> None:
    result = export(net, "--training-step", "--optimizer", "adamw", "--loss-scale", "dynamic", "--freeze", "*.bias")
    assert result.exit_code == 0, result.output
    assert "net.onnx and " in result.output
    described = json.loads(net.with_name("net.json").read_text())
    assert described["inputs"].keys() == {"x", "more.0", "learning_rate"}
    model = written(net)
    assert {value.name for value in model.graph.input} == described["inputs"].keys() | described["state"].keys()
    assert "fc.weight" in described["state"]
    assert "fc.bias" not in described["state"]
    outputs = run_model(model, {"x": np.ones((3, 4), np.float32), "more.0": np.ones(1, np.float32)})
    assert np.isfinite(outputs["loss"])
    assert not outputs["overflow"]
    start = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert (outputs["update.fc.weight"] != start["fc.weight"]).any()


@pytest.mark.slow
def test_a_step_takes_batches_of_any_size_where_that_is_asked_for(net: Path) -> None:
    result = export(net, "--training-step", "--dynamic", "x:0=batch")
    assert result.exit_code == 0, result.output
    described = json.loads(net.with_name("net.json").read_text())
    assert described["inputs"]["x"]["shape"] == ["batch", 4]
    x, more = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(1, np.float32)
    once, twice = (run_model(written(net), {"x": batch, "more.0": more}) for batch in (x, np.tile(x, (2, 1))))
    np.testing.assert_allclose(twice["loss"], once["loss"], rtol=1e-5)
    np.testing.assert_allclose(twice["update.fc.weight"], once["update.fc.weight"], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_the_step_of_a_module_in_another_dtype_is_in_float32(net: Path, dtype: str) -> None:
    in_dtype = NET.replace("return Net()", f"return Net().to(torch.{dtype})")
    net.write_text(in_dtype.replace("torch.ones(3, 4)", f"torch.ones(3, 4, dtype=torch.{dtype})"))
    result = export(net, "--training-step", "--no-check")
    assert result.exit_code == 0, result.output
    x, more = np.ones((3, 4), np.float32), np.ones(1, np.float32)
    assert run_model(written(net), {"x": x, "more.0": more})["loss"].dtype == np.float32


def test_a_loss_in_half_precision_is_written_in_float32(net: Path) -> None:
    net.write_text(NET + "\n\ndef loss(outputs):\n    return outputs.bfloat16().mean()\n")
    result = export(net, "--training-step", "--no-check")
    assert result.exit_code == 0, result.output
    assert json.loads(net.with_name("net.json").read_text())["outputs"]["loss"]["dtype"] == "float32"
    outputs = run_model(written(net), {"x": np.ones((3, 4), np.float32), "more.0": np.ones(1, np.float32)})
    assert outputs["loss"].dtype == np.float32
    assert np.isfinite(outputs["loss"])


def test_a_step_that_differs_from_torch_is_not_written(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim.AdamW, "decoupled", False)
    result = export(net, "--training-step")
    assert result.exit_code == 1
    assert "was not written, since parity fails" in result.output
    assert not net.with_name("net.onnx").exists()
    assert not net.with_name("net.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--optimizer", "sgd"], "--optimizer needs --training-step: otherwise nothing is trained"),
        (["--training-step", "--fp16"], "--training-step can't be combined with --fp16"),
        (["--training-step", "--no-check", "--freeze", "nothing.*"], "'nothing.*' matches no Parameter"),
        (["--training-step", "--no-check", "--freeze", "*"], "every Parameter is frozen"),
    ],
)
def test_options_of_training_that_are_wrong_are_refused(net: Path, options: list[str], message: str) -> None:
    result = export(net, *options)
    assert result.exit_code == 2
    assert message in result.output
    assert not net.with_name("net.onnx").exists()
