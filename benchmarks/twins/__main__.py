"""Compare twins without a map: `python -m benchmarks.twins`; see README.md beside this file."""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from . import loading, table
from .measuring import PARTS, crashed, faults_of, measure
from .proving import problems
from .twin import twins

RESULTS = Path(__file__).parent / "RESULTS.md"
LOADED = Path(__file__).parent / "LOADED.md"
LINES = Path(__file__).parent / "results.jsonl"
UNSTABLE = ("seconds", "said")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.twins", description="Compare twins without a map.")
    parser.add_argument(
        "glob", nargs="?", default="*", metavar="NAME-GLOB", help="pairs with such a name; by default all"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of processes; by default 1")
    parser.add_argument("--prove", action="store_true", help="prove that pairs and faults are what they claim, and end")
    parser.add_argument(
        "--load-weights",
        action="store_true",
        help="load the reference's weights into candidates with others; writes LOADED.md if all pairs are measured",
    )
    arguments = parser.parse_args()
    names = [name for name in twins() if fnmatch.fnmatchcase(name, arguments.glob)]
    if not names:
        parser.error(f"no pair has a name like {arguments.glob!r}; there are {', '.join(twins())}")
    if arguments.prove:
        wrong = [line for name in names for line in problems(twins()[name], tuple(faults_of(twins()[name]).values()))]
        print("\n".join([*wrong, f"{len(names)} pairs, {len(wrong)} problems"]))
        sys.exit(bool(wrong))
    if arguments.load_weights:
        load_all([name for name in names if name in loading.torch_pairs()], arguments.workers, arguments.glob == "*")
        return
    rows = measure_all(names, arguments.workers)
    lines = [json.dumps(_stable(row), ensure_ascii=False) for row in rows]
    print("\n".join([*lines, "", *table.misses(rows), "", table.text(rows)]))
    if len(names) == len(twins()):
        LINES.write_text("\n".join(lines) + "\n", encoding="utf-8")
        RESULTS.write_text(_page(rows), encoding="utf-8")


def measure_all(names: Sequence[str], workers: int) -> list[dict[str, Any]]:
    """Return a row for each pair. A comparison that crashes has no verdict, and the exception is its error."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    results: dict[tuple[str, str], dict[str, Any]] = {}
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(measure, name, part): (name, part) for name in names for part in PARTS}
        for future in as_completed(futures):
            name, part = futures[future]
            error = future.exception()
            results[name, part] = future.result() if error is None else crashed(name, part, error)
            row = results[name, part]
            marks = [mark for mark in ("holds", "found", "placed", "cause") if row.get(mark)] or ["nothing right"]
            print(f"{name} {part}: {', '.join(marks)}, {row['seconds']} s", file=sys.stderr, flush=True)
    return [{"pair": name, **{part: results[name, part] for part in PARTS}} for name in names]


def load_all(names: Sequence[str], workers: int, is_all: bool) -> None:
    """Load weights into all pairs, print the figures and, if these are all pairs of two torch modules, write them."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        rows = []
        for row in pool.map(loading.measure_loading, names):
            rows.append(row)
            print(f"{row['pair']}: {row['seconds']} s", file=sys.stderr, flush=True)
    print("\n".join([*loading.misses(rows), "", loading.text(rows)]))
    if is_all:
        LOADED.write_text(loading.page(rows), encoding="utf-8")


def _stable(row: dict[str, Any]) -> dict[str, Any]:
    parts = {part: {key: value for key, value in row[part].items() if key not in UNSTABLE} for part in PARTS}
    return {"pair": row["pair"], **parts}


def _page(rows: list[dict[str, Any]]) -> str:
    misses = "\n".join(f"- {line}" for line in table.misses(rows))
    return f"""# Measured

What `python -m benchmarks.twins` wrote; [README.md](README.md) says what the figures mean. `results.jsonl` has the
same as one JSON object for each pair, without times, so that two runs can be compared.

```text
{table.text(rows)}
```

## What is missing

{misses}
"""


if __name__ == "__main__":
    main()
