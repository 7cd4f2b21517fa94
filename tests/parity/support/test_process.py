from __future__ import annotations

import atexit
import gc
import io
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.support.process import COLLECTION_THRESHOLDS, end_process, tuned_process


def test_garbage_is_collected_less_often_within_a_command() -> None:
    before = gc.get_threshold()
    with tuned_process():
        assert gc.get_threshold() == COLLECTION_THRESHOLDS
    assert gc.get_threshold() == before
    CliRunner().invoke(main, ["inspect", "no_such_file.py"])
    assert gc.get_threshold() == before


def test_a_process_ends_without_freeing_its_objects() -> None:
    code = """
import atexit, sys
from cellbridge.parity.support.process import end_process

class Slow:
    def __del__(self):
        print("freed")

slow = Slow()
atexit.register(print, "handled")
sys.stdout.write("written, ")
end_process(3)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "written, handled\n", "")


def test_output_that_cannot_be_written_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError("no space left on device")

    ended: list[int] = []
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: None)
    monkeypatch.setattr(os, "_exit", ended.append)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full())
        end_process(0)
    assert not ended
    end_process(2)
    assert ended == [2]
