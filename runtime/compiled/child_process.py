"""Starts the processes that run `child`.

Importing NumPy and ONNX Runtime takes a fifth of a second, most of the time for a small model. On Linux a template
process imports them once and is forked for each model, which takes some milliseconds. No model ever runs in the
template, so each process starts clean. Elsewhere each process imports them itself: forking isn't safe on macOS, and
Windows lacks it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import deque
from typing import BinaryIO, Protocol, cast

FORKING: bool = sys.platform == "linux"
COMMAND = [sys.executable, "-P", "-m", f"{__package__}.child"]  # -P: no module of the current folder
_NUMBER = struct.Struct("<q")  # as in `child`, which this process doesn't import
_FORK = 0


class ChildProcess(Protocol):
    """A process with a pipe in each direction.

    Attributes:
        stdin: takes requests.
        stdout: gives answers.
        returncode: the exit code, or minus the signal that ended the process; None before `wait`.
    """

    stdin: BinaryIO
    stdout: BinaryIO
    returncode: int | None

    def kill(self) -> None:
        """End the process at once."""

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""


def start(printed: BinaryIO) -> ChildProcess:
    """Start a process; its output (stderr) goes to the file `printed`."""
    if FORKING:
        return _Fork(_Template.current(), printed)
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed)
    return cast(ChildProcess, process)  # its pipes aren't None


class _Fork:
    """A fork of the template."""

    def __init__(self, template: _Template, printed: BinaryIO) -> None:
        self.template = template
        self.pid: int | None = None
        self.returncode: int | None = None
        requests, stdin = os.pipe()
        stdout, answers = os.pipe()
        self.stdin: BinaryIO = os.fdopen(stdin, "wb")
        self.stdout: BinaryIO = os.fdopen(stdout, "rb")
        template.fork(self, [requests, answers, printed.fileno()])
        os.close(requests)
        os.close(answers)

    def kill(self) -> None:
        """End the process at once."""
        pid = self.template.pid_of(self)
        # The process ID isn't reused before the template has waited for it. If the template has ended, so has its fork.
        if self.returncode is None and pid is not None and self.template.process.poll() is None:
            os.kill(pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        if self.returncode is None:
            self.returncode = self.template.wait(self)
        return self.returncode


class _Template:
    """The template process. It ends when this process does, and its forks end with it."""

    _current: _Template | None = None

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.lock = threading.RLock()
        self.control, child_end = socket.socketpair()
        self.starting: deque[_Fork] = deque()
        # OpenBLAS would start threads, which forks don't inherit.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        with child_end:
            self.process = subprocess.Popen(
                [*COMMAND, "template"], stdin=child_end.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=environment,
            )  # fmt: skip

    @classmethod
    def current(cls) -> _Template:
        """The template of this process; a new one after a fork of this process, or if it has ended."""
        template = cls._current
        if template is None or template.owner != os.getpid() or template.process.poll() is not None:
            template = cls._current = cls()
        return template

    def fork(self, fork: _Fork, files: list[int]) -> None:
        """Request a fork, without waiting for it: the template may still be starting."""
        with self.lock, contextlib.suppress(BrokenPipeError):
            socket.send_fds(self.control, [_NUMBER.pack(_FORK)], files)
            self.starting.append(fork)

    def pid_of(self, fork: _Fork) -> int | None:
        """The process of a fork; None if the template has ended, and the fork with it."""
        with self.lock:
            while self.starting:
                self.starting.popleft().pid = self._answer()
            return fork.pid

    def wait(self, fork: _Fork) -> int:
        """Wait for the end of a fork, and return its exit code."""
        with self.lock:
            pid = self.pid_of(fork)
            if pid is not None:
                with contextlib.suppress(BrokenPipeError):
                    self.control.sendall(_NUMBER.pack(pid))
                code = self._answer()
                if code is not None:
                    return code
            return -signal.SIGKILL

    def _answer(self) -> int | None:
        with contextlib.suppress(ConnectionResetError):
            answer = self.control.recv(_NUMBER.size, socket.MSG_WAITALL)
            if len(answer) == _NUMBER.size:
                return int(_NUMBER.unpack(answer)[0])
        return None
