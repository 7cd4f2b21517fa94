"""The slow sweeps of these tests, run by `parity sweep`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cellbridge.parity.jobs.sweeping.store import Store

SWEEPS = Path(__file__).with_name("sweeps")


def sweep(models: Sequence[str], database: Path, *options: str) -> Store:
    """Judge models with a process for each CPU, and return the file of results."""
    command = [sys.executable, "-m", "cellbridge.parity", "sweep", *models, "-o", str(database)]
    command += ["--workers", str(os.cpu_count() or 1), "--case-seconds", "900", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), (done.stdout + done.stderr)[-4000:]
    return Store.read(database)


def failures(store: Store) -> list[str]:
    """Return what fails or isn't judged, with the reasons."""
    return [
        f"{name}: {result.output or result.reason}"
        for name, result in store.results().items()
        if result.outcome != "holds"
    ]
