"""Ends the processes of a sweep when the sweep itself has ended in any way, by SIGKILL too.

Run as a program, it reads lines `+PID` and `-PID` of processes that are begun and have ended, each the leader of a
session of its own. When its input ends, it kills the sessions that are left. It imports nothing of the package, so that
it takes little memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

_started: dict[int, subprocess.Popen[bytes]] = {}  # by process, since a fork doesn't share it
_lock = threading.Lock()


@contextlib.contextmanager
def watched(pid: int) -> Iterator[None]:
    """Within the context, a process is killed with its session if this process ends."""
    _tell(f"+{pid}\n")
    try:
        yield
    finally:
        _tell(f"-{pid}\n")


def _tell(line: str) -> None:
    """Write a line to the watchdog of this process, which is started if it doesn't run."""
    if os.name != "posix":
        return
    with _lock:
        watchdog = _started.get(os.getpid())
        if watchdog is None or watchdog.poll() is not None:
            command = [sys.executable, "-I", __file__]
            watchdog = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            _started[os.getpid()] = watchdog
        assert watchdog.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody has just ended it
            watchdog.stdin.write(line.encode())
            watchdog.stdin.flush()


def main() -> None:
    """Watch until the input ends."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    running: set[int] = set()
    for line in sys.stdin:
        (running.add if line[0] == "+" else running.discard)(int(line[1:]))
    for pid in running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
