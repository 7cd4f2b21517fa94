"""Training steps of hand-written Cells against eager torch, in a separate process.

    python -m benchmarks.eager_training REPETITIONS

measures both networks and prints the times as JSON: by network, seconds of cellbridge and of torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .interpreter import THREADS, in_turns
from .sides import THREAD_VARIABLES
from .tables import Row

TITLE = "Eager training"
EXPLANATION = (
    "One training step of Cells (`TrainOneStepCell`: forward, backward, momentum) against the same step of the "
    "same network in eager torch, in float32: LeNet-5 on a batch of 32 images of 28x28, and a transformer encoder of 2 "
    f"layers (d=128, 4 heads, sequence 64, batch 8). Both on {THREADS} threads, in one process."
)
TARGET = 4.0
NAMES = {"lenet5": "LeNet-5", "encoder": "encoder, 2 layers"}


def measure(root: Path, repetitions: int) -> list[Row]:
    """Return rows for both networks, measured in a new process."""
    command = [sys.executable, "-m", "benchmarks.eager_training", str(repetitions)]
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(THREADS))
    process = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    times = json.loads(process.stdout.splitlines()[-1])
    return [
        Row(NAMES[name], "training step", "ms", [1e3 * t for t in cellbridge], [1e3 * t for t in peer], TARGET)
        for name, (cellbridge, peer) in times.items()
    ]


def torch_step(name: str, data: np.ndarray, labels: np.ndarray) -> Callable[[], object]:
    """Return a training step in eager torch."""
    import torch
    from torch import nn

    torch.set_num_threads(THREADS)
    if name == "lenet5":
        network: nn.Module = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip
    else:
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        network = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(64 * 128, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.from_numpy(data), torch.from_numpy(labels).long()

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()

    return step


def cell_step(name: str, data: np.ndarray, labels: np.ndarray) -> Callable[[], object]:
    """Return the same step with Cells."""
    from cellbridge.runtime import Tensor, nn

    if name == "lenet5":
        network = nn.SequentialCell([
            nn.Conv2d(1, 6, 5, pad_mode="pad", padding=2, has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
            nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(),
            nn.Dense(400, 120), nn.ReLU(), nn.Dense(120, 84), nn.ReLU(), nn.Dense(84, 10),
        ])  # fmt: skip
    else:
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        network = nn.SequentialCell([nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Dense(64 * 128, 10)])
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.01, momentum=0.9)
    train = nn.TrainOneStepCell(nn.WithLossCell(network, nn.CrossEntropyLoss()), optimizer).set_train()
    x, y = Tensor(data), Tensor(labels)
    return lambda: train(x, y)


def times(repetitions: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return seconds of cellbridge and of torch by network; the two take turns."""
    rng = np.random.default_rng(0)
    shapes = {"lenet5": (32, 1, 28, 28), "encoder": (8, 64, 128)}
    result = {}
    for name, shape in shapes.items():
        data = rng.standard_normal(shape).astype(np.float32)
        labels = rng.integers(0, 10, shape[0]).astype(np.int32)
        result[name] = in_turns(cell_step(name, data, labels), torch_step(name, data, labels), repetitions)
    return result


if __name__ == "__main__":
    print(json.dumps(times(int(sys.argv[1]))))
