"""A command takes no more time and memory than it may, and nothing that it started is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cellbridge.parity.jobs.sweeping.limits import HEAD, TAIL, Ended, Limits, run_limited

LIMITS = Limits(seconds=30.0, memory=2**30, threads=1)


def run(code: str, limits: Limits = LIMITS, interrupt: threading.Event | None = None) -> Ended:
    return run_limited([sys.executable, "-c", code], limits, interrupt)


def test_what_a_process_prints_and_its_exit_code_are_kept() -> None:
    # memory is looked at several times a second: a process that ends at once may have been seen before Python started
    ended = run(
        "import sys, time; print('out', flush=True); print('err', file=sys.stderr); time.sleep(0.5); sys.exit(3)"
    )
    assert (ended.code, ended.stopped, ended.output) == (3, "", "out\nerr\n")
    assert 2**20 < ended.memory < 2**30


def test_a_process_that_hangs_is_stopped() -> None:
    ended = run("import time; print('begun', flush=True); time.sleep(100)", Limits(0.5, 2**30, 1))
    assert (ended.stopped, ended.output) == ("time", "begun\n")
    assert ended.seconds < 5


def test_a_process_that_needs_too_much_memory_is_stopped() -> None:
    code = "import time\nkept = []\nwhile True:\n    kept.append(bytearray(2**24))\n    time.sleep(0.02)"
    ended = run(code, Limits(30.0, 2**27, 1))
    assert ended.stopped == "memory"
    assert 2**27 < ended.memory < 2**30


def test_memory_of_processes_that_it_starts_counts() -> None:
    code = (
        "import subprocess, sys, time\n"
        "subprocess.run([sys.executable, '-c', 'import time; kept = bytearray(2**28); time.sleep(100)'])"
    )
    assert run(code, Limits(30.0, 2**27, 1)).stopped == "memory"


def test_of_much_output_the_beginning_and_the_end_are_kept() -> None:
    ended = run("import os\nfor n in range(2000): os.write(1, b'%09d\\n' % n * 100)")
    assert ended.code == 0
    assert ended.output.startswith("000000000\n")
    assert ended.output.endswith("000001999\n")
    assert len(ended.output) < HEAD + TAIL + 100
    assert f"{2_000_000 - HEAD - TAIL} bytes left out" in ended.output


def test_output_that_is_no_text_is_kept_as_far_as_it_is() -> None:
    assert run("import os; os.write(1, b'\\xff\\x00ok')").output == "\ufffd\x00ok"


def test_processes_that_it_started_end_with_it(tmp_path: Path) -> None:
    """Also those that are in a session of their own."""
    code = (
        "import os, sys, time\n"
        f"for name in ('plain', 'own session'):\n"
        "    if os.fork() == 0:\n"
        "        if name != 'plain': os.setsid()\n"
        f"        open(os.path.join({str(tmp_path)!r}, name), 'w').write(str(os.getpid()))\n"
        "        time.sleep(100)\n"
        "time.sleep(1)"
    )
    ended = run(code)
    assert ended.code == 0
    numbers = [int(file.read_text()) for file in tmp_path.iterdir()]
    assert len(numbers) == 2
    assert not any(psutil.pid_exists(n) and psutil.Process(n).status() != "zombie" for n in numbers)


def test_a_crash_has_the_number_of_its_signal() -> None:
    assert run("import os; os.abort()").code == -6


def test_it_reads_no_input() -> None:
    assert run("print(input())").code == 1


def test_the_number_of_threads_is_passed_on() -> None:
    assert run("import os; print(os.environ['OMP_NUM_THREADS'])", Limits(30.0, 2**30, 3)).output == "3\n"


def test_another_thread_can_stop_it() -> None:
    interrupt = threading.Event()
    threading.Timer(0.5, interrupt.set).start()
    started = time.monotonic()
    ended = run("import time; time.sleep(100)", interrupt=interrupt)
    assert time.monotonic() - started < 10
    assert (ended.code, ended.stopped) == (-9, "")


def test_a_program_that_does_not_exist() -> None:
    with pytest.raises(FileNotFoundError):
        run_limited(["/there/is/none"], LIMITS)


SWEEP = """
import sys
from cellbridge.parity.jobs.sweeping.limits import Limits, run_limited
run_limited([sys.executable, "-c", sys.argv[1]], Limits(100.0, 2**30, 1))
"""
MODEL = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
open("begun", "w").write(f"{os.getpid()} {other.pid}")
while True: pass
"""


@pytest.mark.skipif(os.name != "posix", reason="sessions are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_lives_on_after_the_sweep_itself_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    sweep = subprocess.Popen([sys.executable, "-c", SWEEP, MODEL], cwd=tmp_path)
    begun = tmp_path / "begun"
    wait_for(lambda: begun.exists() and len(begun.read_text().split()) == 2)
    left = [psutil.Process(int(pid)) for pid in begun.read_text().split()]
    sweep.send_signal(number)
    sweep.wait()
    gone, alive = psutil.wait_procs(left, timeout=20)
    assert len(gone) == 2, alive


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
