"""`--memory` of `parity run` and `parity export`, and model files that name a checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import save_file

from cellbridge.parity.cli import main
from cellbridge.runtime.compiled.session import run_model

from .decoders import allow_one_block, decoder

LARGE = """
import torch
from tests.parity.jobs.out_of_core.decoders import decoder

checkpoint = "weights.safetensors"

def model():
    with torch.device("meta"):
        return decoder()[0].bfloat16()

def inputs():
    return decoder()[1]
"""


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model file whose weights, in bfloat16, are in a file beside it."""
    save_file(decoder()[0].bfloat16().state_dict(), tmp_path / "weights.safetensors")
    path = tmp_path / "large_model.py"
    path.write_text(LARGE)
    return path


def parity(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_run_in_parts(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = allow_one_block(monkeypatch)
    result = parity("run", large, "--memory", f"{memory}B")
    assert result.exit_code == 0, result.output
    assert "judged in 5 parts" in result.output
    assert "were allowed" in result.output


def test_run_of_a_checkpoint_that_fits(large: Path) -> None:
    result = parity("run", large)
    assert result.exit_code == 0, result.output
    assert "the same function, by its outputs and gradients" in result.output
    assert "were allowed" in result.output


@pytest.mark.parametrize("option", [(), ("--fp16",), ("--bf16",)])
@pytest.mark.every(3)
@pytest.mark.slow
def test_export_in_parts(large: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]) -> None:
    memory = allow_one_block(monkeypatch)
    path = large.with_name("model.onnx")
    result = parity("export", large, "-o", path, "--memory", f"{memory}B", *option)
    assert result.exit_code == 0, result.output
    model = onnx.load(path)
    dtypes = {tensor.data_type for tensor in model.graph.initializer if tensor.name.endswith("norm.weight")}
    expected = {(): "FLOAT", ("--fp16",): "FLOAT16", ("--bf16",): "BFLOAT16"}[option]
    assert dtypes == {onnx.TensorProto.DataType.Value(expected)}
    if option:
        return
    module, (ids,) = decoder()
    (scores,) = run_model(model, {model.graph.input[0].name: ids.numpy()}).values()
    reference = module.bfloat16().float()(ids).detach().numpy()
    np.testing.assert_allclose(scores, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_export_of_a_network_that_differs_writes_nothing(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = allow_one_block(monkeypatch)
    wrong = large.with_name("wrong_model.py")
    fault = "def make():\n    module = model()\n    module.blocks[1].wrong = True\n    return module\n"
    wrong.write_text(LARGE + fault)
    path = large.with_name("model.onnx")
    result = parity("export", f"{wrong}:make", "-o", path, "--memory", f"{memory}B")
    assert result.exit_code == 1, result.output
    assert not path.exists()


@pytest.mark.slow
def test_other_commands_have_the_weights_too(large: Path) -> None:
    result = parity("inspect", large)
    assert result.exit_code == 0, result.output
    result = parity("export", large, "--no-check", "-o", large.with_name("model.onnx"))
    assert result.exit_code == 0, result.output
    result = parity("record", large, "-o", large.with_name("one.rec"))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--memory", "much"), "needed a size such as 500MB or 4GB, given 'much'"),
        (("run", "--memory", "8GB", "--round-trip"), "--memory can't be combined with --round-trip"),
        (("run", "--memory", "8GB", "--train-steps", "2"), "--memory can't be combined with --train-steps"),
        (("run", "--memory", "1KB"), "1 KB of memory is too little: Python with torch and ONNX Runtime takes 800 MB"),
        (("export", "-o", "x.onnx", "--memory", "8GB", "--int8"), "--memory can't be combined with --int8"),
    ],
)
def test_what_cannot_be_done_in_parts(large: Path, arguments: tuple[str, ...], message: str) -> None:
    result = parity(*arguments, large)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_weights_that_do_not_fit(large: Path) -> None:
    save_file({"embed.weight": torch.ones(3, 3)}, large.with_name("weights.safetensors"))
    result = parity("run", large)
    assert result.exit_code == 2
    assert "the files have no position" in result.output
