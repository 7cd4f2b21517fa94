"""MindSpore's Cells as they are recorded in an environment of their own, which has neither torch nor cellbridge.

MindSpore needs an older NumPy than cellbridge, so the recorder is copied there, as users do. To run these tests:

    python -m venv other && other/bin/pip install mindspore==2.10.0
    CELLBRIDGE_MINDSPORE_PYTHON=other/bin/python pytest tests/parity/checking/recordings/test_mindspore.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity, recorder
from cellbridge.parity.checking.recordings.recording import open_recording
from cellbridge.parity.sides.records import INPUT_GRADIENT

PYTHON = os.environ.get("CELLBRIDGE_MINDSPORE_PYTHON")
SCRIPT = """
import sys

import mindspore
import numpy as np
from mindspore import Tensor, nn
from recorder import Recorder

eps, momentum, transposed, train = float(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "transposed", sys.argv[5]
mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=False)
        self.bn = nn.BatchNorm2d(4, momentum=momentum)
        self.act = nn.GELU(approximate=False)
        self.norm = nn.LayerNorm((4,), epsilon=eps)
        self.fc = nn.Dense(4, 4)

    def construct(self, x, scale):
        return self.fc(self.norm(self.act(self.bn(self.conv(x))).mean((2, 3)) * scale))


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding, self.block = nn.Embedding(7, 4), Block()

    def construct(self, x, ids):
        return {"y": self.block(x, scale=self.embedding(ids)), "ids": ids}


data = np.load("data.npz")
network = Network()
for name, parameter in network.parameters_and_names():
    value = data[name].T if transposed and name == "block.fc.weight" else data[name]
    parameter.set_data(Tensor(np.ascontiguousarray(value)))
network.set_train(train == "train")
x, ids, seed = (Tensor(data[name]) for name in ("x", "ids", "seed"))
with Recorder(sys.argv[1], framework="mindspore", mode=train) as recorder, recorder.mindspore(network):
    mindspore.grad(lambda x, ids: (network(x, ids)["y"] * seed).sum(), 0, network.trainable_params())(x, ids)
before = len(recorder.tensors)
network(x, ids)
assert len(recorder.tensors) == before, "the hooks are still there"
mindspore.set_context(mode=mindspore.GRAPH_MODE)
try:
    with recorder.mindspore(network):
        raise SystemExit("graph mode was accepted")
except RuntimeError as error:
    assert "mode=mindspore.PYNATIVE_MODE" in str(error)
"""
NAMES = {
    "embedding.weight": "embedding.embedding_table",
    "block.norm.weight": "block.norm.gamma",
    "block.norm.bias": "block.norm.beta",
    "block.bn.weight": "block.bn.gamma",
    "block.bn.bias": "block.bn.beta",
    "block.bn.running_mean": "block.bn.moving_mean",
    "block.bn.running_var": "block.bn.moving_variance",
}
pytestmark = pytest.mark.skipif(PYTHON is None, reason="CELLBRIDGE_MINDSPORE_PYTHON names no environment")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.GELU()
        self.norm, self.fc = nn.LayerNorm(4, eps=1e-6), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.act(self.bn(self.conv(x))).mean((2, 3)) * scale))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.block = nn.Embedding(7, 4), Block()

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.block(x, scale=self.embedding(ids)), "ids": ids}


def record_both(folder: Path, *settings: str, train: bool = False) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    network, inputs, seed = Network(), (torch.randn(2, 3, 6, 6), torch.tensor([1, 5])), torch.randn(2, 4)
    arrays = {NAMES.get(name, name): value.numpy() for name, value in network.state_dict().items()}
    np.savez(folder / "data.npz", x=inputs[0].numpy(), ids=inputs[1].numpy(), seed=seed.numpy(), **arrays)
    parity.record(network, inputs, folder / "ref.rec", loss=lambda outputs: (outputs["y"] * seed).sum(), train=train)
    (folder / "script.py").write_text(SCRIPT)
    shutil.copy(recorder.__file__, folder / "recorder.py")
    mode = "train" if train else "eval"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(PYTHON), "script.py", "other.rec", *settings, mode],
        capture_output=True, text=True, check=False, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return network, inputs


@pytest.mark.parametrize("train", [False, True])
def test_a_right_port_agrees_with_its_gradients_and_statistics(tmp_path: Path, train: bool) -> None:
    network, inputs = record_both(tmp_path, "1e-6", "0.9", "as it is", train=train)
    recording = open_recording(tmp_path / "other.rec")
    assert recording.index.versions["mindspore"]
    assert {key.path for key in recording.run("float32").records.values if key.kind == INPUT_GRADIENT} >= {"block", ""}
    for report in (
        parity.judge(tmp_path / "ref.rec", tmp_path / "other.rec"),
        parity.compare(network, tmp_path / "other.rec", inputs, train=train),
    ):
        assert report.ok, str(report)
        compared = {(c.kind, c.tensor) for cell in report.cells.values() for c in cell.comparisons}
        assert {("parameter gradient", "block.norm.weight"), ("parameter", "embedding.weight")} <= compared
        assert not train or ("buffer update", "block.bn.running_mean") in compared
        assert "*.weight = *.gamma" in " ".join(report.notes)


@pytest.mark.causes
@pytest.mark.parametrize(
    ("settings", "train", "cell", "words"),
    [
        (("1e-5", "0.9", "as it is"), False, "block.norm", "eps is 1e-05 in the candidate, 1e-06 in the reference"),
        (("1e-6", "0.1", "as it is"), True, "block.bn", "momentum"),
        (("1e-6", "0.9", "transposed"), False, "block.fc", "transposed"),
    ],
)
def test_the_mistakes_of_ports_are_placed_and_named(
    tmp_path: Path, settings: tuple[str, ...], train: bool, cell: str, words: str
) -> None:
    network, inputs = record_both(tmp_path, *settings, train=train)
    judged = parity.judge(tmp_path / "ref.rec", tmp_path / "other.rec")
    assert judged.failing == [cell], str(judged)
    report = parity.compare(network, tmp_path / "other.rec", inputs, train=train)
    assert report.failing == [cell], str(report)
    assert words in " ".join(cause.summary for cause in report.cells[cell].causes), str(report)
