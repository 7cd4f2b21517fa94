"""How the time of comparing an unrolled recurrent file grows with its steps.

    python -m benchmarks.unrolled STEPS

prints the processor time of the comparison, after its imports, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .sides import THREAD_VARIABLES
from .tables import Row

TITLE = "Comparing unrolled recurrent files"
STEPS = 125
QUICK_STEPS = 10
TARGET = 2.5
EXPLANATION = (
    "Processor time of `parity compare` of a file with itself, after its imports, in a process of its own on one "
    "thread: a GRU cell of 64 features, called n and 2n times by a loop in Python. Each side runs forward and backward "
    "in float64 and float32, and on further inputs. A time that is linear in the steps has a growth of 2."
)
HEAD = "| network | measured | 2n | n | ratio | range | target | met |\n|---|---|---:|---:|---:|---:|---:|---|"


def measure(root: Path, steps: int, turns: int) -> str:
    """Return the table, measured in new processes, in turns."""
    small, large = [], []
    for _ in range(turns):
        small.append(_seconds(root, steps))
        large.append(_seconds(root, 2 * steps))
    row = Row(f"GRU cell, {steps} to {2 * steps} steps", "processor time", "s", large, small, TARGET)
    return f"{HEAD}\n{row}"


def _seconds(root: Path, steps: int) -> float:
    command = [sys.executable, "-m", "benchmarks.unrolled", str(steps)]
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    result: float = json.loads(done.stdout.splitlines()[-1])
    return result


def _main(steps: int) -> None:
    import torch

    from cellbridge.converter import from_torch, to_onnx
    from cellbridge.parity.checking.onnx_files.compare import compare_onnx
    from cellbridge.parity.support.process import tuned_process

    class Unrolled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = torch.nn.GRUCell(32, 64), torch.nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = x.new_zeros(x.shape[0], 64)
            for step in range(steps):
                state = self.cell(x[:, step], state)
            output: torch.Tensor = self.head(state)
            return output

    torch.manual_seed(0)
    x = torch.randn(2, steps, 32)
    with tempfile.TemporaryDirectory() as folder, tuned_process():  # as commands run
        path = f"{folder}/unrolled.onnx"
        to_onnx(from_torch(Unrolled(), (x,)), path)
        started = time.process_time()
        report = compare_onnx(path, path)
        print(json.dumps(time.process_time() - started))
        assert report.ok


if __name__ == "__main__":
    _main(int(sys.argv[1]))
