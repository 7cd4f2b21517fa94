"""`parity sweep`: what it adds to judging models one by one, how it scales, and what a result costs its driver."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

from .tables import Row
from .whole_process import usage

TITLE = "Sweeps"
EXPLANATION = (
    "`parity sweep --workers 1` over small models, each in a process of its own, against `parity run MODEL` for one "
    "after another; and with two workers against one. Of a thousand models, which a generator makes, the time of both "
    "workers is compared with that of the models' processes: the rest is what the sweep takes. *Driver* is the time in "
    "which the process that saves results takes one (a report of 1 MB, in a database with a thousand), against the "
    "time in which the next one comes from 1,000 workers that each need as long as the models above: a ratio of 1 "
    "would keep it busy."
)
MODELS = 8
MANY = 1_000
RESULTS, WORKERS = 1_000, 1_000
MODEL = """import torch
from torch import nn


def model():
    return nn.Sequential(nn.Linear(16, {width}), nn.LayerNorm({width}), nn.GELU(), nn.Linear({width}, 4))


def inputs():
    return (torch.randn(8, 16),)
"""
CASES = """import torch
from torch import nn


def cases():
    for number in range({count}):
        width = 8 * (number % 50 + 1)

        def make(width=width):
            layers = nn.Linear(16, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, 4)
            return nn.Sequential(*layers), (torch.randn(8, 16),)

        yield f"{{number}}", make
"""


def measure(root: Path, count: int, many: int, turns: int) -> list[Row]:
    """Return the rows, for `count` model files and `many` cases of a generator."""
    alone: list[float] = []
    swept: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            models = [folder / f"m{number}.py" for number in range(count)]
            for number, model in enumerate(models):
                model.write_text(MODEL.format(width=8 * (number + 1)), encoding="utf-8")
            run = [sys.executable, "-m", "cellbridge.parity"]
            report = ["--json", str(folder / "report.json")]
            alone.append(sum(usage([*run, "run", str(model), *report], root).seconds for model in models))
            for workers, seconds in swept.items():
                options = ["-o", str(folder / f"{workers}.db"), "--workers", str(workers)]
                seconds.append(usage([*run, "sweep", *map(str, models), *options], root).seconds)
            text = (folder / "report.json").read_text(encoding="utf-8")
    seconds_of_result = statistics.median(alone) / count
    name = f"{count} models"
    return [
        Row(name, "1 worker, against one by one", "s", swept[1], alone, 1.02),
        Row(name, "2 workers, against 1", "s", swept[2], swept[1], None),
        _generated(root, many),
        Row(
            "one result",
            "driver",
            "ms",
            [_driver(text) * 1e3 for _ in range(turns)],
            [seconds_of_result / WORKERS * 1e3] * turns,
            1,
        ),
    ]


def _generated(root: Path, count: int) -> Row:
    """Return the time of two workers over cases of a generator, against the time of the cases' processes."""
    with tempfile.TemporaryDirectory() as name:
        file, database = Path(name) / "many.py", Path(name) / "sweep.db"
        file.write_text(CASES.format(count=count), encoding="utf-8")
        command = [sys.executable, "-m", "cellbridge.parity", "sweep", str(file), "-o", str(database), "--workers", "2"]
        seconds = usage(command, root).seconds
        with contextlib.closing(sqlite3.connect(database)) as results:
            ((total, inside),) = results.execute("select count(*), sum(seconds) from results where outcome = 'holds'")
    assert total == count
    return Row(f"{count:,} models", "2 workers, against their models' processes", "s", [2 * seconds], [inside], 1.02)


def _driver(report: str) -> float:
    """Return the time in seconds in which the driver saves a result."""
    import zlib

    from cellbridge.parity.jobs.sweeping.result import Result
    from cellbridge.parity.jobs.sweeping.run_options import RunOptions
    from cellbridge.parity.jobs.sweeping.store import Store

    document = json.loads(report)
    while len(report) < 1_000_000:
        document["cells"] *= 2
        report = json.dumps(document)
    compressed = zlib.compress(report.encode())
    with tempfile.TemporaryDirectory() as folder, Store.write(Path(folder) / "s.db", RunOptions(), {}) as store:
        start = time.perf_counter()
        for number in range(RESULTS):
            store.add(Result(f"m{number}.py", "holds", "parity holds", 0, 1.0, 1, report=compressed))
        return (time.perf_counter() - start) / RESULTS
