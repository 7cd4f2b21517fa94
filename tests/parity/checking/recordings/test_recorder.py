"""`cellbridge.recorder`, as another project uses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.utils.checkpoint import checkpoint

from cellbridge.parity.checking.recordings.recording import open_recording
from cellbridge.parity.sides.records import Key
from cellbridge.recorder import Recorder, as_stored, summary

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def index_of(path: Path) -> Any:
    return json.loads((path / "recording.json").read_text())


def test_what_is_recorded_is_read_again(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a", model="net", seed=3) as recorder:
        recorder.cell("layers.0", inputs={"x": X}, outputs=(X + 1, [X.T]), class_name="Dense")
        recorder.gradient("layers.0", inputs={"x": X * 2}, outputs=(X * 3,))
        recorder.parameter("layers.0.weight", X, gradient=X - 1)
        recorder.buffer("layers.0.mean", X[0], update=X[1])
    recording = open_recording(tmp_path / "a")
    run = recording.run("float32")
    assert recording.index.complete
    assert (recording.index.model, recording.index.seed) == ("net", 3)
    assert [(call.path, call.class_name) for call in run.records.calls] == [("layers.0", "Dense")]
    values = {tuple(key): value for key, value in run.records.values.items()}
    np.testing.assert_array_equal(values["layers.0", 0, "input", "x"], X)
    np.testing.assert_array_equal(values["layers.0", 0, "output", "[1][0]"], X.T)
    np.testing.assert_array_equal(values["layers.0", 0, "output_gradient", "[0]"], X * 3)
    np.testing.assert_array_equal(run.parameters["layers.0.weight"], X)
    np.testing.assert_array_equal(run.records.gradients.parameters["layers.0.weight"], X - 1)
    np.testing.assert_array_equal(run.records.state.updates["layers.0.mean"], X[1])


def test_the_files_are_plain_safetensors(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a") as recorder:
        recorder.cell("f", inputs=X, outputs=np.array([True, False]))
    tensors = load_file(tmp_path / "a" / "tensors-00000.safetensors")
    assert [(x.dtype.name, x.shape) for x in tensors.values()] == [("float32", (2, 3)), ("bool", (2,))]


def test_an_array_that_is_changed_later_was_copied(tmp_path: Path) -> None:
    x = X.copy()
    with Recorder(tmp_path / "a") as recorder:
        recorder.cell("f", inputs=x)
        x += 1
        recorder.cell("f", inputs=x)
    values = open_recording(tmp_path / "a").run("float32").records.values
    np.testing.assert_array_equal(values[Key("f", 0, "input", "result")], X)
    np.testing.assert_array_equal(values[Key("f", 1, "input", "result")], X + 1)


def test_a_tensor_that_crosses_several_boundaries_is_written_once(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Sequential(nn.Linear(3, 3)), nn.ReLU())
    with Recorder(tmp_path / "a") as recorder, recorder.torch(network):
        network(torch.from_numpy(X))
    entries = [e for e in index_of(tmp_path / "a")["tensors"] if e["role"] in ("input", "output")]
    assert len(entries) == 8
    assert len({entry["key"] for entry in entries}) == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.complex64])
def test_dtypes_of_torch_are_kept(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.from_numpy(X).to(dtype)
    with Recorder(tmp_path / "a") as recorder:
        recorder.cell("f", outputs=x)
    (value,) = open_recording(tmp_path / "a").run("float32").records.values.values()
    if dtype == torch.complex64:
        np.testing.assert_array_equal(value[..., 0], X)
    else:
        assert str(dtype) == f"torch.{value.dtype.name}"
        np.testing.assert_array_equal(value.astype(np.float32), X)


def test_a_dtype_that_files_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="object can't be recorded; there are bool"):
        as_stored(np.array([None]))


def test_gradients_need_a_call(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a") as recorder, pytest.raises(KeyError, match="f has no call yet"):
        recorder.gradient("f", inputs=X)


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(FileExistsError, match="give the name of a new folder"):
        Recorder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_functions_are_cells_by_a_decorator(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a") as recorder:

        @recorder.function("outer")
        def outer(x: Any, *, factor: Any) -> Any:
            return inner(x * factor)

        @recorder.function("outer.inner")
        def inner(x: Any) -> Any:
            return {"y": x + 1}

        outer(X, factor=np.float32(2) * X)
    calls = open_recording(tmp_path / "a").run("float32").records.calls
    assert [(call.path, call.parent) for call in calls] == [("outer", None), ("outer.inner", 0)]
    slots = [(e["cell"], e["role"], e["slot"]) for e in index_of(tmp_path / "a")["tensors"]]
    assert ("outer", "input", "factor") in slots
    assert ("outer.inner", "output", "['y']") in slots


def test_calls_recorded_after_they_returned_are_nested_by_their_paths(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a") as recorder:
        for _ in range(2):
            recorder.cell("block.norm", outputs=X)
            recorder.cell("block", outputs=X + 1)
        recorder.cell("", outputs=X)
    calls = open_recording(tmp_path / "a").run("float32").records.calls
    assert [(call.path, call.index, call.parent) for call in calls] == [
        ("", 0, None), ("block", 0, 0), ("block.norm", 0, 1), ("block", 1, 0), ("block.norm", 1, 3),
    ]  # fmt: skip


def test_what_was_written_before_a_crash_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellbridge.recorder.SHARD_BYTES", 1)
    recorder = Recorder(tmp_path / "a")
    recorder.cell("f", inputs=X, outputs=X + 1)  # and the process ends: the index isn't written
    recording = open_recording(tmp_path / "a")
    assert not recording.index.complete
    assert [key.kind for key in recording.run("float32").records.values] == ["input", "output"]


def test_a_full_disk_leaves_a_recording_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellbridge.recorder.SHARD_BYTES", 1)
    recorder = Recorder(tmp_path / "a")
    recorder.cell("f", inputs=X)

    def full(self: Path, mode: str) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(OSError, match="No space left"):
            recorder.cell("g", inputs=X)
    assert list(open_recording(tmp_path / "a").run("float32").records.values) == [Key("f", 0, "input", "result")]
    assert not list((tmp_path / "a").glob("*.partial"))


def test_a_budget_summarizes_what_does_not_fit(tmp_path: Path) -> None:
    large = np.linspace(-1, 3, 5000, dtype=np.float32)
    with Recorder(tmp_path / "a", budget=100) as recorder:
        recorder.cell("f", inputs=X, outputs=large)
    kept, summarized = index_of(tmp_path / "a")["tensors"]
    assert "file" in kept
    assert "file" not in summarized
    numbers = summarized["summary"]
    assert numbers["norm"] == pytest.approx(np.linalg.norm(large))
    assert (numbers["least"], numbers["greatest"]) == (-1.0, 3.0)
    np.testing.assert_array_equal(large[numbers["indices"]], np.array(numbers["values"], np.float32))


def test_a_summary_has_numbers_that_json_can_hold() -> None:
    numbers = summary(np.array([np.nan, np.inf, 1], np.float32), "float32")
    assert json.dumps(numbers, allow_nan=False)
    assert "nan" in numbers["values"]


def test_hooks_leave_the_network_as_it_was(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
    x = torch.from_numpy(X)
    network(x).sum().backward()
    expected = [p.grad.clone() for p in network.parameters() if p.grad is not None]
    network.zero_grad()
    with Recorder(tmp_path / "a") as recorder, recorder.torch(network):
        network(x).sum().backward()
    for p, gradient in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=0, atol=0)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_a_checkpointed_part_is_recorded_once(tmp_path: Path) -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=False)

    network = Network()
    with Recorder(tmp_path / "a") as recorder, recorder.torch(network):
        network(torch.from_numpy(X).requires_grad_()).sum().backward()
    assert [call["cell"] for call in index_of(tmp_path / "a")["calls"]] == ["", "inner"]


def test_arguments_stay_positional_or_keywords_as_they_were_given(tmp_path: Path) -> None:
    given: list[Any] = []

    class Inner(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            given.append((len(args), sorted(kwargs)))
            return args[0] + kwargs["scale"]

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor, flag: int = 2, scale: Any = None) -> torch.Tensor:
            return self.inner(x, x, scale=scale, flag=flag)

    x = torch.from_numpy(X)
    network = Outer()
    with Recorder(tmp_path / "b") as recorder, recorder.torch(network):
        network(x, scale=x)
    assert given == [(2, ["flag", "scale"])]
    slots = [(e["cell"], e["slot"]) for e in index_of(tmp_path / "b")["tensors"] if e["role"] == "input"]
    assert slots == [("", "x"), ("", "scale"), ("inner", "args[0]"), ("inner", "args[1]"), ("inner", "scale")]


def test_memory_of_files_is_given_back_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorder(tmp_path / "a") as recorder:
        for number in range(4):
            recorder.cell(f"f{number}", outputs=np.full(1000, number, np.float32))
    monkeypatch.setattr("cellbridge.parity.checking.recordings.shards.RELEASE", 6000)
    recording = open_recording(tmp_path / "a")
    values = recording.run("float32").records.values
    released: list[None] = []
    monkeypatch.setattr(recording.shards, "release", lambda: released.append(None))
    for number, (_, array) in enumerate(values.items()):
        np.testing.assert_array_equal(array, np.full(1000, number, np.float32))
    assert len(released) == 2
