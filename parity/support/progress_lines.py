"""Progress where there is no terminal: lines, and one line of a notebook that is overwritten."""

from __future__ import annotations

import threading
import time
from typing import TextIO

EVERY = 5.0
"""Seconds between lines."""


def seconds_left(elapsed: float, done: float, total: float) -> float | None:
    """Return the seconds that the rest of a stage takes at the pace so far; None before its first step, and at the end.

    Args:
        elapsed: seconds since the stage began.
        done: steps that are done.
        total: all steps.
    """
    return elapsed / done * (total - done) if 0 < done < total else None


class ProgressLines:
    """Prints a line at intervals with the stage, its progress and the elapsed time.

    The first is printed after `every` seconds, so that a short run prints none.
    """

    def __init__(self, stream: TextIO, every: float = EVERY) -> None:
        self._stream = stream
        self._every = every
        self._start_time = time.monotonic()
        self._name, self._steps_done, self._stage_start = "start", 0, self._start_time
        self._total: int | None = None
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        """Start printing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop printing."""
        self._stop_event.set()
        self._thread.join()

    def stage(self, name: str, total: int | None) -> None:
        """Start another stage."""
        self._name, self._total, self._steps_done, self._stage_start = name, total, 0, time.monotonic()

    def advance(self, n: int = 1) -> None:
        """Count `n` more steps of the stage as done."""
        self._steps_done += n

    def _write(self) -> None:
        while not self._stop_event.wait(self._every):
            now, done, total = time.monotonic(), self._steps_done, self._total
            far = "" if total is None else f" {min(done, total)} of {total}"
            seconds = None if total is None else seconds_left(now - self._stage_start, done, total)
            rest = "" if seconds is None else f", about {seconds:.0f} s left"
            try:
                self._show(f"{self._name}{far} ({now - self._start_time:.0f} s{rest})")
                self._stream.flush()
            except (OSError, ValueError):  # the stream has no reader, or is closed, which doesn't end the run
                return

    def _show(self, line: str) -> None:
        self._stream.write(f"{line}\n")


class NotebookLine(ProgressLines):
    """Shows the same in one line, which each next one overwrites, and which is gone at the end."""

    def __init__(self, stream: TextIO, every: float = 0.5) -> None:
        super().__init__(stream, every)
        self._width = 0

    def stop(self) -> None:
        """Stop, and clear the line."""
        super().stop()
        if self._width:
            self._show("")
            self._stream.write("\r")
            self._stream.flush()

    def _show(self, line: str) -> None:
        self._stream.write(f"\r{line.ljust(self._width)}")
        self._width = max(self._width, len(line))
