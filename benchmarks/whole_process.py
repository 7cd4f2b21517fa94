"""`parity run` as a whole process against a plain script that a user might write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .tables import Row

TITLE = "`parity run`, the whole process"
EXPLANATION = (
    "Wall time and peak resident memory of `parity run fixtures/MODEL.py` against `python benchmarks/plain_script.py "
    "fixtures/MODEL.py`, which imports torch, builds the model, runs it forward and backward once and exports it with "
    "`torch.onnx.export(dynamo=True)`."
)
TARGETS = {"wall time": 0.9, "peak memory": 1.5}
MEBIBYTE = 2**20
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes per unit of getrusage's ru_maxrss


@dataclass(frozen=True)
class Usage:
    """The cost of a process: wall time in seconds, peak resident memory in MiB."""

    seconds: float
    memory: float


def measure(root: Path, model: str, repetitions: int) -> list[Row]:
    """Return rows for one model file; the two commands take turns, and the first turn isn't counted."""
    file = f"fixtures/{model}.py"
    cellbridge, peer = [], []
    for turn in range(repetitions + 1):
        plain = usage([sys.executable, "benchmarks/plain_script.py", file], root)
        parity = usage([sys.executable, "-m", "cellbridge.parity", "run", file], root)
        if turn:
            cellbridge.append(parity)
            peer.append(plain)
    return [
        Row(model, "wall time", "s", [u.seconds for u in cellbridge], [u.seconds for u in peer], TARGETS["wall time"]),
        Row(
            model,
            "peak memory",
            "MiB",
            [u.memory for u in cellbridge],
            [u.memory for u in peer],
            TARGETS["peak memory"],
        ),
    ]


def usage(command: list[str], folder: Path) -> Usage:
    """Run a command to its end; raise `RuntimeError` with its output if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        _, status, resources = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}:\n{output.read()[-4000:]}")
    return Usage(seconds, resources.ru_maxrss * MAXRSS_UNIT / MEBIBYTE)
