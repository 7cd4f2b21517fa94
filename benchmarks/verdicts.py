"""`parity run` of models at 224x224 against the time that torch's forward and backward pass take."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .sides import THREADS
from .whole_process import Usage, usage

TITLE = "Verdicts on models at 224x224"
NAMES = (
    "efficientnet_b0", "mobilenetv3_large_100", "convnext_tiny", "swin_tiny_patch4_window7_224", "maxvit_tiny_tf_224",
    "mvitv2_small",
)  # fmt: skip
FACTOR, START = 6.0, 2.5
MEMORY = 2.0
EXPLANATION = (
    "Wall time of `parity run benchmarks/timm_models.py:NAME`, one image, against what it may take: "
    f"{FACTOR:g} times torch's forward and backward pass in float32 (the least of five, on {max(THREADS)} threads) and "
    f"{START:g} s. *Memory* is its peak above that of the process which runs these passes alone. Models are timm's, "
    "with random weights."
)
HEAD = (
    "| model | measured | ours | may take | ratio | range | target | met | torch's passes | memory |\n"
    "|---|---|---:|---:|---:|---:|---|---|---:|---:|"
)


def measure(root: Path, names: Sequence[str], turns: int) -> str:
    """Return the table."""
    rows = []
    for name in names:
        peers, cellbridge = [], []
        for turn in range(turns + 1):  # the first isn't counted
            plain = [sys.executable, "-m", "benchmarks.timm_models", name, str(max(THREADS))]
            done = subprocess.run(plain, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
            command = [sys.executable, "-m", "cellbridge.parity", "run", f"benchmarks/timm_models.py:{name}"]
            current = usage(command, root)
            if turn:
                peers.append(Usage(*json.loads(done.stdout.splitlines()[-1])))
                cellbridge.append(current)
        rows.append(_row(name, peers, cellbridge))
    return "\n".join([HEAD, *rows])


def _row(name: str, peers: Sequence[Usage], cellbridge: Sequence[Usage]) -> str:
    allowed = [FACTOR * peer.seconds + START for peer in peers]
    ratios = [turn.seconds / most for turn, most in zip(cellbridge, allowed, strict=True)]
    ratio, passes = statistics.median(ratios), statistics.median(peer.seconds for peer in peers)
    memory = statistics.median(turn.memory - peer.memory for turn, peer in zip(cellbridge, peers, strict=True)) / 1024
    met = "yes" if ratio <= 1 and memory <= MEMORY else "**no**"
    return (
        f"| {name} | wall time | {statistics.median(turn.seconds for turn in cellbridge):.3g} s | "
        f"{statistics.median(allowed):.3g} s | {ratio:.2f} | {min(ratios):.2f} to {max(ratios):.2f} | "
        f"≤ 1, {MEMORY:g} GiB | {met} | {1e3 * passes:.0f} ms | {memory:.2f} GiB |"
    )
