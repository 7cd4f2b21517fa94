"""A training step as a file: what is in it and beside it, and the loop in the docs that trains from it."""

from __future__ import annotations

import json
import re
import subprocess
import venv
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import cellbridge.runtime as ms
from cellbridge.converter import from_torch, training_step_to_onnx
from cellbridge.runtime import UsageError, optim
from cellbridge.runtime.train_step.arguments import training_step
from cellbridge.runtime.train_step.train_step import TrainStep, compile_train_step

ROOT = Path(__file__).parents[2]
LOOP = re.search(r"```python\n(import.*?)```", (ROOT / "docs" / "train_without_torch.md").read_text(), re.DOTALL)
STEPS = 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).train()


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(STEPS, 5, 6, generator=generator), torch.randint(0, 3, (STEPS, 5), generator=generator)


def written(path: Path) -> onnx.ModelProto:
    xs, ys = batches()
    program = from_torch(network(), (xs[0],), train=True)
    step = training_step(
        program,
        ms.nn.CrossEntropyLoss(),
        lambda p: optim.AdamW(p, 1e-3),
        loss_scale="dynamic",
        clip_norm=1.0,
        frozen=["0.bias"],
    )
    return training_step_to_onnx(step, (xs[0], ys[0]), path, names=("x", "target"))


def trained_by_torch() -> dict[str, np.ndarray]:
    module = network()
    module[0].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], 1e-3)
    for step, (x, y) in enumerate(zip(*batches(), strict=True)):
        optimizer.param_groups[0]["lr"] = 1e-3 * 0.9**step
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
    return {name: value.numpy() for name, value in module.state_dict().items()}


def test_the_loop_of_the_docs_trains_without_torch_and_without_cellbridge(tmp_path: Path) -> None:
    written(tmp_path / "step.onnx")
    xs, ys = batches()
    np.savez(tmp_path / "data.npz", x=xs.numpy(), target=ys.numpy())
    assert LOOP is not None
    assert len(LOOP[1].strip().splitlines()) <= 20
    (tmp_path / "loop.py").write_text(LOOP[1])
    python = bare_python(tmp_path / "venv")
    for module in ("torch", "cellbridge"):
        assert subprocess.run([python, "-c", f"import {module}"], capture_output=True, cwd=tmp_path).returncode
    done = subprocess.run(
        [python, "loop.py", "step", "data.npz"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == STEPS
    final_weights = np.load(tmp_path / "step.trained.npz")
    expected_weights = trained_by_torch()
    assert set(final_weights.files) == expected_weights.keys() - {"0.bias"}
    for name in final_weights.files:
        np.testing.assert_allclose(final_weights[name], expected_weights[name], rtol=2e-4, atol=2e-6, err_msg=name)


def bare_python(folder: Path) -> str:
    """The interpreter of a new virtual environment in which there are NumPy and ONNX Runtime alone."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in (Path(np.__file__).parent, Path(onnxruntime.__file__).parent):
        for item in package.parent.glob(f"{package.name}*"):
            (site / item.name).symlink_to(item)
    return str(folder / "bin" / "python")


def test_the_description_names_what_the_model_takes_and_gives(tmp_path: Path) -> None:
    model = written(tmp_path / "step.onnx")
    onnx.checker.check_model(model, full_check=True)
    described = json.loads((tmp_path / "step.json").read_text())
    inputs = {value.name for value in model.graph.input}
    outputs = {value.name for value in model.graph.output}
    assert described["inputs"].keys() | described["state"].keys() == inputs
    assert described["inputs"].keys() == {"x", "target", "learning_rate"}
    assert outputs == {"loss", "overflow"} | {kept["update"] for kept in described["state"].values()}
    assert described["state"]["0.weight"] == {
        "is": "network", "update": "update.0.weight", "dtype": "float32", "shape": [8, 6],
    }  # fmt: skip
    roles = {kept["is"] for kept in described["state"].values()}
    assert roles == {"network", "optimizer", "loss scale"}
    assert "0.bias" not in inputs  # frozen
    assert {node.domain for node in model.graph.node} == {""}


def test_a_file_that_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't write"):
        written(tmp_path / "no" / "step.onnx")
    with pytest.raises(UsageError, match="the file that describes it"):
        written(tmp_path / "step.json")
    assert list(tmp_path.iterdir()) == []


class Scaled(nn.Module):
    """A tensor that has the name of an argument, and a layer in half precision."""

    def __init__(self, scale: str = "scale", dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(6, 3)
        self.register_parameter(scale, nn.Parameter(torch.ones(3)))
        self.name, self.dtype = scale, dtype

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", self.dtype, enabled=self.dtype != torch.float32):
            y = self.linear(x)
        return y.float() * getattr(self, self.name) * scale


def scaled_step(module: nn.Module, path: Path | None) -> tuple[onnx.ModelProto, list[np.ndarray], TrainStep]:
    x, scale, target = torch.randn(5, 6), torch.rand(3), torch.ones(5, 3)
    program = from_torch(module, (x, scale), train=True)
    arguments = program, ms.nn.MSELoss(), lambda p: optim.SGD(p, 0.1)
    names = "x", "scale", "target"
    model = training_step_to_onnx(training_step(*arguments, loss_scale=2.0**10), (x, scale, target), path, names=names)
    return model, [a.numpy() for a in (x, scale, target)], compile_train_step(*arguments, loss_scale=2.0**10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.every(3)
def test_the_file_computes_what_is_compiled(tmp_path: Path, dtype: torch.dtype) -> None:
    model, batch, step = scaled_step(Scaled(dtype=dtype), tmp_path / "step.onnx")
    described = json.loads((tmp_path / "step.json").read_text())
    assert described["inputs"].keys() == {"x", "batch_scale", "target", "learning_rate"}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = dict(zip(("x", "batch_scale", "target"), batch, strict=True))
    outputs = [output.name for output in session.get_outputs()]
    results = dict(zip(outputs, session.run(None, given), strict=True))
    assert float(step(*batch)) == float(results["loss"])
    for name, value in step.parameters().items():
        np.testing.assert_array_equal(results[described["state"][name]["update"]], value)


def test_a_tensor_that_is_called_as_an_output_is_refused() -> None:
    with pytest.raises(UsageError, match="the network has a tensor called 'loss'"):
        scaled_step(Scaled("loss"), None)


def test_the_state_in_a_file_of_its_own(tmp_path: Path) -> None:
    """As JavaScript's ONNX Runtime needs it: no input has a value in the model."""
    xs, ys = batches()
    step = training_step(
        from_torch(network(), (xs[0],), train=True), ms.nn.CrossEntropyLoss(), lambda p: optim.SGD(p, 0.1)
    )
    whole = training_step_to_onnx(step, (xs[0], ys[0]), tmp_path / "whole.onnx", names=("x", "target"))
    apart = training_step_to_onnx(
        step, (xs[0], ys[0]), tmp_path / "apart.onnx", names=("x", "target"), separate_state=True
    )
    state = load_file(tmp_path / "apart.safetensors")
    inputs = {value.name for value in apart.graph.input}
    assert inputs == {value.name for value in whole.graph.input}
    assert not inputs & {tensor.name for tensor in apart.graph.initializer}
    assert set(state) == inputs - {"x", "target"}
    assert (tmp_path / "apart.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    given = {"x": xs[0].numpy(), "target": ys[0].numpy()}
    first, second = (
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for model in (whole, apart)
    )
    for whole_output, apart_output in zip(first.run(None, given), second.run(None, given | state), strict=True):
        np.testing.assert_array_equal(whole_output, apart_output)
    with pytest.raises(UsageError, match="separate_state=True needs a path"):
        training_step_to_onnx(step, (xs[0], ys[0]), separate_state=True)
