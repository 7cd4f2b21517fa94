"""Sides of a comparison, each in its own process, which wait while the other computes."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
THREADS = (1, 2)
ANSWER = "answer "
SECONDS = 0.5  # length of a side's turn
CHOOSING_TURNS = 3  # per number of threads, before one is chosen


class Side:
    """A process that runs `serve`.

    Attributes:
        threads: number of threads that it may use.
        begin: seconds until the end of its first step.
    """

    def __init__(self, root: Path, module: str, arguments: Sequence[str], threads: int) -> None:
        self.threads = threads
        command = [sys.executable, "-m", module, *arguments, str(threads)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
        self.process = subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.begin = self._read_answer()

    def _read_answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return json.loads(line.removeprefix(ANSWER))
        raise RuntimeError(f"a side ended with exit code {self.process.wait()}: {self.process.args}")

    def ask(self, question: str | int) -> Any:
        """Return times in seconds for a number of steps; for `memory`, the peak of the process in bytes."""
        assert self.process.stdin is not None
        print(question, file=self.process.stdin, flush=True)
        return self._read_answer()

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def serve(make: Callable[[], Callable[[], object]], threads: int) -> None:
    """Make steps as requested by lines of standard input; `make` returns the function of one step."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    step = make()
    start = time.perf_counter()
    step()
    print(f"{ANSWER}{time.perf_counter() - start}", flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(f"{ANSWER}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}", flush=True)
            continue
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(f"{ANSWER}{json.dumps(times)}", flush=True)


def verdict(ratio: float, target: float | None) -> str:
    """Say whether a ratio, rounded to two digits, reaches its target; empty without a target."""
    return "" if target is None else "yes" if round(ratio, 2) >= target else "**no**"


@dataclass(frozen=True)
class Measurement:
    """Cellbridge and a peer: seconds by turn (the median of its steps), seconds to begin, bytes of memory, threads."""

    cellbridge: Sequence[float]
    peer: Sequence[float]
    begins: tuple[float, float]
    memory: tuple[float, float]
    threads: tuple[int, int]

    @property
    def ratios(self) -> list[float]:
        """Speedup of cellbridge, by turn."""
        return [p / o for o, p in zip(self.cellbridge, self.peer, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the turns."""
        return statistics.median(self.ratios)

    def cells(self, target: float | None) -> str:
        """Return times, ratio and its range, target and threads as cells of a Markdown table."""
        met = verdict(self.ratio, target)
        aim = "" if target is None else f"≥ {target:g}"
        cellbridge, peer = (f"{1e3 * statistics.median(times):.3g} ms" for times in (self.cellbridge, self.peer))
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        return (
            f"{cellbridge} | {peer} | {self.ratio:.2f} | {spread} | {aim} | {met} | "
            f"{self.threads[0]}, {self.threads[1]}"
        )


CELLS = "ours | peer | peer / ours | range | target | met | threads, ours and peer"
ALIGNED = "---:|---:|---:|---:|---:|---|---"


def compare(root: Path, module: str, cellbridge: Sequence[str], peer: Sequence[str], turns: int) -> Measurement:
    """Let two sides of a module take turns of half a second, each with its faster number of threads."""
    sides = _fastest(root, module, cellbridge), _fastest(root, module, peer)
    try:
        times: tuple[list[float], list[float]] = ([], [])
        steps = steps_of_a_turn(sides[0])
        for _ in range(turns):
            for side, times_of_side in zip(sides, times, strict=True):
                times_of_side.append(statistics.median(side.ask(steps)))
        memory = sides[0].ask("memory"), sides[1].ask("memory")
    finally:
        for side in sides:
            side.end()
    begins, threads = (sides[0].begin, sides[1].begin), (sides[0].threads, sides[1].threads)
    return Measurement(*times, begins, memory, threads)


def _fastest(root: Path, module: str, arguments: Sequence[str]) -> Side:
    candidates = [Side(root, module, arguments, threads) for threads in THREADS]
    times: list[list[float]] = [[] for _ in candidates]
    steps = [steps_of_a_turn(candidate) for candidate in candidates]
    for _ in range(CHOOSING_TURNS):
        for candidate, times_of_side, count in zip(candidates, times, steps, strict=True):
            times_of_side.append(statistics.median(candidate.ask(count)))
    least = [min(times_of_side) for times_of_side in times]  # so that a busy moment of the machine doesn't decide
    fastest = candidates[least.index(min(least))]
    for candidate in candidates:
        if candidate is not fastest:
            candidate.end()
    return fastest


def steps_of_a_turn(side: Side) -> int:
    """Return the number of steps that a side makes in its turn."""
    return max(3, int(SECONDS / max(statistics.median(side.ask(5)), 1e-4)))
