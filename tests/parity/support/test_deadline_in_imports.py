"""A deadline that strikes within an import, where an exception would be taken for another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SWALLOWS = """
import time
try:
    time.sleep(20)
except BaseException:
    raise RuntimeError("half imported") from None
"""
RUN = "from cellbridge.parity.support.deadline import deadline\nwith deadline(0.5):\n    {}\n"


@pytest.mark.parametrize("statement", ["import slow", "from slow import x", "__import__('slow')"])
@pytest.mark.every(3)
def test_the_process_ends_with_the_message_and_the_exit_code(tmp_path: Path, statement: str) -> None:
    (tmp_path / "slow.py").write_text(SWALLOWS)
    command = [sys.executable, "-c", RUN.format(statement)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr == "error: stopped after 0.5 s, as --timeout requests.\n"
