"""How much of other projects' tests and models passes, by the gap lists that the slow tests check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TITLE = "Coverage"
EXPLANATION = (
    "What passes of torch's operator database, of onnx's backend tests, and of families of models; what doesn't, and "
    "why, is in [docs/coverage.md](../docs/coverage.md)."
)


def table(root: Path) -> str:
    """Return a Markdown table of all suites."""
    command = [sys.executable, "-m", "tests.coverage.summary"]
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
