"""Runs scripts of reproductions in this process."""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
from pathlib import Path

import torch


def run_here(script: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in this process, which has loaded torch already."""
    output, code = io.StringIO(), 0
    with contextlib.redirect_stdout(output):
        try:
            runpy.run_path(str(script))
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            torch.set_printoptions(profile="default")
    return subprocess.CompletedProcess([], code, output.getvalue(), "")
