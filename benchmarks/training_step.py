"""Compiled training steps against eager torch, torch.compile and MindSpore's graph mode, each in its own process.

    python -m benchmarks.training_step SIDE NETWORK THREADS FOLDER

is one side: for each line `N` that it reads, it makes N steps and prints their times in seconds as JSON; for `memory`,
its peak memory in bytes. First it prints how long it took until the first step was made. FOLDER is that of the captured
programs; the side `capture` writes them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .interpreter import THREAD_VARIABLES
from .training_networks import (
    NETWORKS,
    batch,
    mindspore_network,
    mindspore_optimizer,
    our_optimizer,
    torch_network,
    torch_optimizer,
)

TITLE = "Training steps"
EXPLANATION = (
    "One step of training (forward, backward, optimizer; parameters and state stay where they are) of a network "
    "captured from torch, compiled by `runtime.compile_train_step`, in float32 on the CPU. Each side runs in a process "
    "of its own and waits while the other computes; they take turns of several steps. Each side has the number of "
    "threads with which it is faster. **Ratios are peer / ours: above 1, ours is faster.** "
    "*Begin* is the time from the captured program to the end of the first step; *memory* the peak of the process."
)
TARGETS = {"lenet": 1.2, "encoder": 1.0, "lstm": 1.0, "resnet": 0.8}
MINDSPORE_TARGETS = {"lenet": 5.0, "encoder": 1.5, "lstm": None, "resnet": 5.0}
GEOMETRIC_MEAN_TARGET = 1.0
THREADS = (1, 2)
SIDES = {"torch": "eager torch", "torch.compile": "torch.compile", "mindspore": "MindSpore, graph mode"}
HEADER = """\
| network | against | ours | peer | peer / ours | range | target | met | threads, ours and peer |
|---|---|---:|---:|---:|---:|---:|---|---|
"""


class Side:
    """One side, in a process of its own."""

    def __init__(self, root: Path, side: str, network: str, threads: int, folder: str) -> None:
        self.threads = threads
        command = [sys.executable, "-m", "benchmarks.training_step", side, network, str(threads), folder]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
        self.process = subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.begin = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        raise RuntimeError(f"a side ended with exit code {self.process.wait()}: {self.process.args}")

    def ask(self, question: str | int) -> Any:
        """What the side answers to a number of steps, or to `memory`."""
        assert self.process.stdin is not None
        print(question, file=self.process.stdin, flush=True)
        return self._answer()

    def end(self) -> None:
        """Let the process end."""
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Measured:
    """Two sides of one network: seconds by turn (the median of its steps), seconds to begin, bytes of memory."""

    network: str
    side: str
    ours: Sequence[float]
    peer: Sequence[float]
    begins: tuple[float, float]
    memory: tuple[float, float]
    threads: tuple[int, int]

    @property
    def ratio(self) -> float:
        """How many times as fast ours is."""
        return statistics.median(p / o for o, p in zip(self.ours, self.peer, strict=True))


def measure(root: Path, networks: Sequence[str], turns: int) -> str:
    """The tables."""
    found: list[Measured] = []
    sides = [side for side in SIDES if side != "mindspore" or importlib.util.find_spec("mindspore")]
    with tempfile.TemporaryDirectory() as folder:
        for network in networks:
            Side(root, "capture", network, 2, folder).end()
            for side in sides:
                found.append(_measured(root, network, side, turns, folder))
                print(_row(found[-1]), flush=True)
    eager = [m.ratio for m in found if m.side == "torch"]
    mean = statistics.geometric_mean(eager)
    met = "yes" if mean >= GEOMETRIC_MEAN_TARGET else "**no**"
    summary = f"| geometric mean | eager torch | | | {mean:.2f} | | ≥ {GEOMETRIC_MEAN_TARGET:g} | {met} | |"
    return HEADER + "\n".join([*map(_row, found), summary]) + "\n\n" + _resources(found)


def _measured(root: Path, network: str, side: str, turns: int, folder: str) -> Measured:
    ours, peer = _best(root, "ours", network, folder), _best(root, side, network, folder)
    try:
        times: tuple[list[float], list[float]] = ([], [])
        steps = max(3, int(0.5 / max(statistics.median(ours.ask(3)), 1e-3)))
        for _ in range(turns):
            for one, kept in zip((ours, peer), times, strict=True):
                kept.append(statistics.median(one.ask(steps)))
        memory = ours.ask("memory"), peer.ask("memory")
    finally:
        ours.end()
        peer.end()
    return Measured(network, side, *times, (ours.begin, peer.begin), memory, (ours.threads, peer.threads))


def _best(root: Path, side: str, network: str, folder: str) -> Side:
    """A side with the number of threads with which it is faster."""
    candidates = []
    for threads in THREADS:
        running = Side(root, side, network, threads, folder)
        running.ask(5)
        candidates.append((statistics.median(running.ask(15)), threads, running))
    candidates.sort(key=lambda candidate: candidate[:2])
    for _, _, slower in candidates[1:]:
        slower.end()
    return candidates[0][2]


def _row(m: Measured) -> str:
    targets = {"torch": TARGETS, "mindspore": MINDSPORE_TARGETS}.get(m.side, {})
    target = targets.get(m.network)
    met = "" if target is None else "yes" if m.ratio >= target else "**no**"
    aim = "" if target is None else f"≥ {target:g}"
    ratios = [p / o for o, p in zip(m.ours, m.peer, strict=True)]
    ours, peer = (f"{1e3 * statistics.median(times):.3g} ms" for times in (m.ours, m.peer))
    return (
        f"| {NETWORKS[m.network]} | {SIDES[m.side]} | {ours} | {peer} | {m.ratio:.2f} "
        f"| {min(ratios):.2f} to {max(ratios):.2f} | {aim} | {met} | {m.threads[0]}, {m.threads[1]} |"
    )


def _resources(found: Sequence[Measured]) -> str:
    lines = [
        "| network | against | begin, ours | begin, peer | memory, ours | memory, peer |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for m in found:
        begin = (f"{seconds:.1f} s" for seconds in m.begins)
        memory = (f"{size / 2**20:.0f} MiB" for size in m.memory)
        lines.append(f"| {NETWORKS[m.network]} | {SIDES[m.side]} | {' | '.join((*begin, *memory))} |")
    return "\n".join(lines)


# ---- in the process of a side ----


def _capture(name: str, folder: str) -> None:
    import torch

    from cellbridge.converter import from_torch

    program = from_torch(torch_network(name), (torch.from_numpy(batch(name)[0]),), train=True)
    program.save(Path(folder) / name)


def _ours(name: str, folder: str) -> Callable[[], object]:
    import cellbridge.runtime as ms

    x, y = batch(name)
    program = ms.load(Path(folder) / name)
    step = ms.compile_train_step(program, ms.nn.CrossEntropyLoss(), lambda p: our_optimizer(name, p), provider="cpu")
    return lambda: step(x, y)


def _torch(name: str, compiled: bool = False) -> Callable[[], object]:
    import torch

    network = torch_network(name)
    optimizer = torch_optimizer(name, network.parameters())
    x, y = map(torch.from_numpy, batch(name))
    run: Any = torch.compile(network) if compiled else network

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(run(x), y).backward()
        optimizer.step()

    return step


def _mindspore(name: str) -> Callable[[], object]:
    import mindspore
    from mindspore import Tensor, nn

    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    network = mindspore_network(name)
    optimizer = mindspore_optimizer(name, network.trainable_params())
    train = nn.TrainOneStepCell(network, optimizer).set_train()
    x, y = (Tensor(array if array.dtype.kind == "f" else array.astype("int32")) for array in batch(name))
    return lambda: train(x, y).asnumpy()


def _serve(side: str, network: str, threads: int, folder: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if side in ("torch", "torch.compile"):
        import torch

        torch.set_num_threads(threads)
    start = time.perf_counter()
    if side == "capture":
        _capture(network, folder)
    else:
        step = _ours(network, folder) if side == "ours" else PEERS[side](network)
        start = time.perf_counter()
        step()
    print("answer", json.dumps(time.perf_counter() - start), flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print("answer", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
            continue
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print("answer", json.dumps(times), flush=True)


PEERS = {"torch": _torch, "torch.compile": lambda name: _torch(name, True), "mindspore": _mindspore}

if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
