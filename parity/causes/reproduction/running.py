"""Runs the script of a reproduction, which is none unless it shows the difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ....runtime.errors import ConversionError
from .script import ALIKE, DIFFERENT

SECONDS = 120.0
"""The longest run of a script."""


def run_script(script: Path) -> str:
    """Run a script, and return what it printed.

    Raises:
        ConversionError: it doesn't show that the two sides differ.
    """
    try:
        done = start(script)
    except subprocess.TimeoutExpired as error:
        raise ConversionError(f"the script took longer than {SECONDS:.0f} s") from error
    outcome = done.returncode, done.stdout.rstrip().rpartition("\n")[2]
    if outcome == (0, ALIKE):
        raise ConversionError("both sides agree when they are run alone")
    if outcome != (1, DIFFERENT):
        raise ConversionError(f"the script failed: {done.stderr.strip().rpartition(chr(10))[2][:200]}")
    return done.stdout


def start(script: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, which writes no files, and wait for it.

    Raises:
        subprocess.TimeoutExpired: it takes too long.
    """
    return subprocess.run(
        [sys.executable, "-B", script.name],
        cwd=script.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
