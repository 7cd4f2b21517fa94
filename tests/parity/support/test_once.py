"""One result for several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellbridge.parity.support.once import ATTEMPTS, EndedBefore, once

COMPUTING = """
import sys, time
from pathlib import Path
from cellbridge.parity.support.once import once

folder = Path(sys.argv[1])

def compute():
    with (folder / "computed").open("a") as file:
        file.write("once\\n")
    time.sleep(0.5)
    return {"by": "a process"}

print(once(folder / "result.json", compute))
"""


def started(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)


def test_several_processes_compute_once(tmp_path: Path) -> None:
    processes = [started(COMPUTING, tmp_path) for _ in range(4)]
    outputs = {process.communicate(timeout=60)[0] for process in processes}
    assert outputs == {"{'by': 'a process'}\n"}
    assert (tmp_path / "computed").read_text() == "once\n"


def test_the_next_process_computes_where_one_was_killed(tmp_path: Path) -> None:
    process = started(COMPUTING.replace("time.sleep(0.5)", "import os; os._exit(9)"), tmp_path)
    assert process.wait(60) == 9
    assert once(tmp_path / "result.json", lambda: 3) == 3
    assert once(tmp_path / "result.json", lambda: 4) == 3


def test_a_crash_is_not_repeated_for_ever(tmp_path: Path) -> None:
    for _ in range(ATTEMPTS):
        child = os.fork()
        if child == 0:
            once(tmp_path / "result.json", lambda: os._exit(9))
        os.waitpid(child, 0)
    with pytest.raises(EndedBefore):
        once(tmp_path / "result.json", lambda: 3)


def test_an_exception_is_raised_and_leaves_no_result(tmp_path: Path) -> None:
    def refused() -> None:
        raise ValueError("no")

    for _ in range(ATTEMPTS + 1):
        with pytest.raises(ValueError, match="no"):
            once(tmp_path / "result.json", refused)
    assert once(tmp_path / "result.json", lambda: [1]) == [1]
    assert json.loads((tmp_path / "result.json").read_text()) == [1]
