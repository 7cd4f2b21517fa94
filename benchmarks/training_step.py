"""Compiled training steps against eager torch, torch.compile and MindSpore's graph mode, each in its own process.

    python -m benchmarks.training_step SIDE NETWORK FOLDER THREADS

runs one side (see `sides.serve`); FOLDER has the captured programs, which the side `capture` writes.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .sides import ALIGNED, CELLS, Measurement, Side, compare, serve, verdict
from .training_networks import (
    IN_MINDSPORE,
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
    "captured from torch, compiled by `runtime.compile_train_step`, in float32 on the CPU. Each side runs in its own "
    "process and waits while the other computes; they take turns of several steps. Each side has the number of "
    "threads with which it is faster. **Ratios are peer / ours: above 1, ours is faster.** "
    "*Begin* is the time from the captured program to the end of the first step; *memory* the peak of the process."
)
TARGETS = dict.fromkeys(NETWORKS, 0.9) | dict.fromkeys(("lenet", "encoder", "lstm", "resnet"), 1.0)
MINDSPORE_TARGETS = {"lenet": 5.0, "encoder": 1.5, "resnet": 5.0}
GEOMETRIC_MEAN_TARGET = 1.3
FROZEN = {  # all but the head and the part next to it
    "encoder": ("the embedding and three of four layers", ["0.*", *(f"1.layers.{i}.*" for i in range(3))]),
    "resnet": ("all but the last of four stages", ["0.*", "1.*", *(f"{i}.*" for i in range(3, 9))]),
}
PEERS = {"torch": "eager torch", "torch.compile": "torch.compile", "mindspore": "MindSpore, graph mode"}
MODULE = "benchmarks.training_step"


def measure(root: Path, networks: Sequence[str], turns: int) -> str:
    """Return the tables."""
    measurements: dict[tuple[str, str], Measurement] = {}
    peers = [peer for peer in PEERS if peer != "mindspore" or importlib.util.find_spec("mindspore")]
    with tempfile.TemporaryDirectory() as folder:
        for network in networks:
            Side(root, MODULE, ["capture", network, folder], 2).end()
            for peer in peers:
                if peer == "mindspore" and network not in IN_MINDSPORE:
                    continue
                own_command, peer_command = ["ours", network, folder], [peer, network, folder]
                measurements[network, peer] = compare(root, MODULE, own_command, peer_command, turns)
                print(_row(network, peer, measurements[network, peer]), flush=True)
        frozen = {n: _frozen(root, n, folder, turns) for n in networks if n in FROZEN}
    mean = statistics.geometric_mean(measured.ratio for (_, peer), measured in measurements.items() if peer == "torch")
    met = verdict(mean, GEOMETRIC_MEAN_TARGET)
    rows = [_row(*pair, measured) for pair, measured in measurements.items()]
    rows.append(f"| geometric mean | eager torch | | | {mean:.2f} | | ≥ {GEOMETRIC_MEAN_TARGET:g} | {met} | |")
    resources = [
        f"| {NETWORKS[network]} | {PEERS[peer]} | "
        + " | ".join([f"{seconds:.1f} s" for seconds in m.begins] + [f"{size / 2**20:.0f} MiB" for size in m.memory])
        + " |"
        for (network, peer), m in measurements.items()
    ]
    return "\n".join([
        f"| network | against | {CELLS} |", f"|---|---|{ALIGNED}|", *rows, "",
        "| network | against | begin, ours | begin, peer | memory, ours | memory, peer |",
        "|---|---|---:|---:|---:|---:|", *resources, "",
        "Frozen parameters (`frozen=[...]`): no gradient is computed for what leads to them alone.", "",
        "| network | frozen | a step | with everything trained | times as fast |", "|---|---|---:|---:|---:|",
        *frozen.values(),
    ])  # fmt: skip


def _frozen(root: Path, network: str, folder: str, turns: int) -> str:
    """Return a row on the speedup of a step with most parameters frozen."""
    measurement = compare(root, MODULE, ["frozen", network, folder], ["ours", network, folder], turns)
    cellbridge, peer = (
        f"{1e3 * statistics.median(times):.3g} ms" for times in (measurement.cellbridge, measurement.peer)
    )
    return f"| {NETWORKS[network]} | {FROZEN[network][0]} | {cellbridge} | {peer} | {measurement.ratio:.2f} |"


def _row(network: str, peer: str, measurement: Measurement) -> str:
    target = {"torch": TARGETS, "mindspore": MINDSPORE_TARGETS}.get(peer, {}).get(network)
    return f"| {NETWORKS[network]} | {PEERS[peer]} | {measurement.cells(target)} |"


# ---- in the process of a side ----


def capture_network(name: str, folder: str) -> None:
    """Save the captured program of a network to a folder."""
    import torch

    from cellbridge.converter import from_torch

    program = from_torch(torch_network(name), (torch.from_numpy(batch(name)[0]),), train=True)
    program.save(Path(folder) / name)


def _cellbridge(name: str, folder: str, frozen: Sequence[str] = ()) -> Callable[[], object]:
    import cellbridge.runtime as ms

    x, y = batch(name)
    program = ms.load(Path(folder) / name)
    step = ms.compile_train_step(
        program, ms.nn.CrossEntropyLoss(), lambda p: our_optimizer(name, p), frozen=frozen, provider="cpu"
    )
    return lambda: step(x, y)


def _torch(name: str, threads: int, compiled: bool) -> Callable[[], object]:
    import torch

    torch.set_num_threads(threads)
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


def _main(side: str, network: str, folder: str, threads: int) -> None:
    if side == "capture":
        serve(lambda: lambda: capture_network(network, folder), threads)
    elif side in ("ours", "frozen"):
        serve(lambda: _cellbridge(network, folder, FROZEN[network][1] if side == "frozen" else ()), threads)
    elif side == "mindspore":
        serve(lambda: _mindspore(network), threads)
    else:
        serve(lambda: _torch(network, threads, side == "torch.compile"), threads)


if __name__ == "__main__":
    _main(*sys.argv[1:4], int(sys.argv[4]))
