"""How the time of each stage grows with the size of a network: from n to 2n, in turns.

    python -m benchmarks.growth nodes N
    python -m benchmarks.growth cells N

print the seconds of each stage on a chain of N nodes, or of N Cells, as JSON.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .tables import Row

TITLE = "Growth"
EXPLANATION = (
    "Seconds that each stage takes on a chain of n nodes (two elementwise ops in turn, one Cell), and of n Cells (five "
    "nodes each), and on one twice as long; each in its own process, in turns. A stage whose time is linear in the "
    "nodes has a growth of 2."
)
TARGET = 2.5
HEAD = "| chain | stage | 2n | n | ratio | range | target | met |\n|---|---|---:|---:|---:|---:|---:|---|"
SIZES = {"nodes": 50_000, "cells": 2_500}
QUICK_SIZES = {"nodes": 1_000, "cells": 50}


def measure(root: Path, sizes: dict[str, int], turns: int) -> str:
    """Return the table."""
    rows = []
    for kind, size in sizes.items():
        small, large = [], []
        for _ in range(turns):
            small.append(_seconds(root, kind, size))
            large.append(_seconds(root, kind, 2 * size))
        chain = f"{size:,} to {2 * size:,} {kind}"
        for stage in small[0]:
            of_large, of_small = ([seconds[stage] for seconds in turn] for turn in (large, small))
            rows.append(Row(chain, stage, "s", of_large, of_small, TARGET))
    return "\n".join([HEAD, *map(str, rows)])


def _seconds(root: Path, kind: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", kind, str(size)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


# ---- in the process of one measurement ----


class Stages:
    """The seconds of each stage, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, run: Callable[[], Any]) -> Any:
        gc.collect()
        start = time.perf_counter()
        result = run()
        self.seconds[name] = time.perf_counter() - start
        return result


def of_nodes(size: int, folder: str) -> dict[str, float]:
    """Return the seconds of each stage on a chain of nodes."""
    import numpy as np

    import cellbridge.runtime as ms
    from cellbridge.converter import to_onnx
    from cellbridge.runtime.programs.gradient_program import differentiate

    def chain(x: Any) -> Any:
        for _ in range(size // 2):
            x = ms.ops.tanh(x * 0.999)
        return x

    x = np.ones((2, 4), np.float32)
    stage = Stages()
    program = stage("trace", lambda: ms.trace(chain, (ms.Tensor(x),))).program
    stage("verify", lambda: ms.verify(program))
    stage("run in the interpreter", lambda: program(x))
    stage("differentiate", lambda: differentiate(program))
    stage("save", lambda: program.save(Path(folder) / "chain"))
    stage("load", lambda: ms.load(Path(folder) / "chain"))
    stage("export", lambda: to_onnx(program, Path(folder) / "chain.onnx"))
    return stage.seconds


def of_cells(size: int, folder: str) -> dict[str, float]:
    """Return the seconds of each stage on a chain of Cells."""
    import torch
    from torch import nn

    from cellbridge import parity
    from cellbridge.converter import from_torch, to_onnx

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.rand(4) * 0.01)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x * 0.999 + self.bias)

    module, x = nn.Sequential(*[Cell() for _ in range(size)]), torch.randn(2, 4)
    stage = Stages()
    program = stage("capture", lambda: from_torch(module, (x,)))
    stage("export", lambda: to_onnx(program, Path(folder) / "cells.onnx"))
    report = stage("compare", lambda: parity.compare(module, program, (x,)))
    assert report.ok
    stage("report as text", lambda: str(report))
    stage("report as JSON", lambda: json.dumps(report.to_dict()))
    stage("report as HTML", lambda: report.write_html(str(Path(folder) / "report.html")))
    return stage.seconds


if __name__ == "__main__":
    from cellbridge.parity.support.process import tuned_process

    with tempfile.TemporaryDirectory() as temporary, tuned_process():  # as commands run
        measured = {"nodes": of_nodes, "cells": of_cells}[sys.argv[1]](int(sys.argv[2]), temporary)
    print(json.dumps(measured))
