"""Runs mutants in worker processes, and records those that crash, hang, or violate a guarantee."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WALL = 300.0  # seconds without output; a worker stops itself after 5 processor seconds in Python
MUTANTS_OF_A_WORKER = 2000
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Failure:
    """A mutant that violates a guarantee; `python -m tests.fuzz --seed SEED --only NUMBER` repeats it."""

    seed: int
    number: int
    what: str
    detail: str
    target: str | None = None

    def __str__(self) -> str:
        command = f"python -m tests.fuzz --seed {self.seed} --only {self.number}"
        command += f" --target {self.target}" if self.target else ""
        return f"mutant {self.number} of seed {self.seed}: {self.what}\n{self.detail}\n  again: {command}"


def fuzz(seed: int, numbers: range, target: str | None = None) -> Iterator[int | Failure]:
    """Run mutants; yield the number of each started mutant, and each failure."""
    start = numbers.start
    while start < numbers.stop:
        stop = min(start + MUTANTS_OF_A_WORKER, numbers.stop)
        current = start - 1
        has_started = False
        for answer in _answers(seed, start, stop, target):
            if isinstance(answer, str):  # the worker ended
                if not has_started:
                    raise RuntimeError(f"a worker doesn't start: {answer}")
                yield Failure(seed, current, answer, "", target)
                break
            has_started = True
            if "begins" in answer:
                current = int(str(answer["begins"]))
                yield current
            elif "fails" in answer:
                what = f"{answer['what']} ({answer['target']})"
                yield Failure(seed, current, what, str(answer["detail"]), target)
            else:
                break
        start = max(current, start) + 1


def _answers(seed: int, start: int, stop: int, target: str | None) -> Iterator[dict[str, object] | str]:
    """Yield a worker's answers, and a string with its exit if it ends too early."""
    arguments = [str(seed), str(start), str(stop), *([target] if target else [])]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.worker", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    ) as worker:  # fmt: skip
        assert worker.stdout is not None
        stop_event, signs = threading.Event(), [time.monotonic()]

        def watch() -> None:
            while not stop_event.wait(1.0):
                if time.monotonic() - signs[0] > WALL:
                    worker.kill()

        threading.Thread(target=watch, daemon=True).start()
        try:
            for line in worker.stdout:
                signs[0] = time.monotonic()
                answer = json.loads(line)
                yield answer
                if "done" in answer:
                    return
            stderr = worker.stderr.read() if worker.stderr is not None else ""
            yield f"the process ended with {worker.wait()}: {stderr[-1000:]}"
        finally:
            stop_event.set()
            worker.kill()
