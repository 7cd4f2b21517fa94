"""`run_limited`: runs a command in a process of its own, which may take so much time and memory and no more."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import psutil

from .watchdog import watched

HEAD, TAIL = 4_000, 16_000
"""Bytes of the output that are kept, from its beginning and its end."""
EVERY = 0.1
"""Seconds between two looks at a process."""
PATIENCE = 5.0
"""Seconds that killed processes may take to go."""


@dataclass(frozen=True)
class Limits:
    """What the process of one model may take.

    Attributes:
        seconds: the longest time.
        memory: the most bytes in memory, of it and all processes that it starts.
        threads: the number of threads that it computes with.
    """

    seconds: float
    memory: int
    threads: int


@dataclass(frozen=True)
class Ended:
    """How a process has ended.

    Attributes:
        code: its exit code; of a signal, its negative number.
        stopped: "time" or "memory", the limit at which it was stopped; empty if it ended by itself.
        output: what it printed, on stderr too; of much, the beginning and the end.
        seconds: how long it ran.
        memory: the most bytes that were seen in its memory.
    """

    code: int
    stopped: str
    output: str
    seconds: float
    memory: int


def run_limited(
    command: Sequence[str],
    limits: Limits,
    interrupt: threading.Event | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command to its end, or to a limit; processes that it has started end with it.

    Args:
        command: the program and its arguments.
        limits: what it may take.
        interrupt: stops it from another thread, once it is set.
        environment: variables in addition to this process's.
    """
    interrupt = interrupt or threading.Event()
    threads = {name: str(limits.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    started = time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        env={**os.environ, **threads, **(environment or {})},
    ) as process, watched(process.pid):  # fmt: skip
        assert process.stdout is not None
        output = _Output(process.stdout)
        peak, stopped, processes = 0, "", dict[int, psutil.Process]()
        try:
            while process.poll() is None:
                peak = max(peak, _memory_of(process.pid, processes))
                if interrupt.is_set():
                    break
                if time.monotonic() - started > limits.seconds:
                    stopped = "time"
                elif peak > limits.memory:
                    stopped = "memory"
                if stopped:
                    break
                interrupt.wait(EVERY)
        finally:
            _end(process, processes)
        text = output.text()
    return Ended(process.returncode, stopped, text, time.monotonic() - started, peak)


def _memory_of(pid: int, processes: dict[int, psutil.Process]) -> int:
    """Return the bytes of a process and of those that it has started, which are added to `processes`."""
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        processes |= {process.pid: process for process in (root, *root.children(recursive=True))}
    total = 0
    for process in list(processes.values()):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            del processes[process.pid]
    return total


def _end(process: subprocess.Popen[bytes], processes: Mapping[int, psutil.Process]) -> None:
    """Kill a process, if it still runs, and all that it has started; those that left its session, too."""
    with contextlib.suppress(psutil.Error):
        processes = {
            **processes,
            **{child.pid: child for child in psutil.Process(process.pid).children(recursive=True)},
        }
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 9)
    for child in processes.values():
        with contextlib.suppress(psutil.Error):
            child.kill()  # psutil knows whether it is still the same process
    process.wait()
    psutil.wait_procs(list(processes.values()), PATIENCE)


class _Output:
    """Reads the output of a process as it comes, so that it never waits, and keeps a part of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._head, self._tail, self._left_out = b"", b"", 0
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 2**16):
            room = HEAD - len(self._head)
            self._head, rest = self._head + chunk[:room], chunk[room:]
            self._tail += rest
            self._left_out += max(0, len(self._tail) - TAIL)
            self._tail = self._tail[-TAIL:]

    def text(self) -> str:
        """Return what was kept."""
        self._thread.join(PATIENCE)  # a process that got away may hold the other end
        gap = f"\n... {self._left_out} bytes left out ...\n".encode() if self._left_out else b""
        return (self._head + gap + self._tail).decode(errors="replace")
