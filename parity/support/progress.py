"""How far a run has come: the `Progress` protocol, a bar per stage on a terminal, and lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

current = ""
"""The stage that the command is in."""
EVERY = 5.0
"""Seconds between lines where there is no terminal."""


class Progress(Protocol):
    """Told by the engine what it is doing."""

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage of `total` steps (None if that isn't known), which ends the one before."""

    def advance(self, n: int = 1) -> None:
        """`n` more steps of the stage are done."""


class NoProgress:
    """Shows nothing."""

    def stage(self, name: str, total: int | None) -> None:
        """Nothing."""

    def advance(self, n: int = 1) -> None:
        """Nothing."""


class TerminalProgress:
    """A bar per stage on stderr while the `with` block lasts, gone after it; lines where stderr is no terminal."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr)  # that of now, whatever is put in its place while the bars are shown
        on_terminal = console.is_terminal and not console.is_dumb_terminal
        self._lines = None if on_terminal else Lines(sys.stderr)
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            expand=True,
            disable=not on_terminal,
            redirect_stdout=sys.stdout.isatty(),  # what a model prints goes above the bars, but not out of its pipe
        )
        self._current: TaskID | None = None

    def __enter__(self) -> Self:
        if self._lines is not None:
            self._lines.start()
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
        if self._lines is not None:
            self._lines.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Start a bar of `total` steps, one that only moves if None; the bar before it is filled."""
        global current
        current = name
        if self._lines is not None:
            self._lines.stage(name, total)
        if self._current is not None:
            task = next(task for task in self._bars.tasks if task.id == self._current)
            self._bars.update(self._current, total=task.total or 1, completed=task.total or 1)
            self._bars.stop_task(self._current)
        self._current = self._bars.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        """Move the bar of the current stage by `n` steps."""
        if self._lines is not None:
            self._lines.advance(n)
        if self._current is not None:
            self._bars.advance(self._current, n)


class Lines:
    """A line now and then that says which stage it is, how far it has come, and how long the run has taken.

    The first comes after `every` seconds: a short run writes none.
    """

    def __init__(self, stream: TextIO, every: float = EVERY) -> None:
        self._stream = stream
        self._every = every
        self._begun = time.monotonic()
        self._name, self._done = "start", 0
        self._total: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join()

    def stage(self, name: str, total: int | None) -> None:
        """Another stage begins."""
        self._name, self._total, self._done = name, total, 0

    def advance(self, n: int = 1) -> None:
        """`n` more steps of it are done."""
        self._done += n

    def _write(self) -> None:
        while not self._ended.wait(self._every):
            far = "" if self._total is None else f" {self._done} of {self._total}"
            line = f"{self._name}{far} ({time.monotonic() - self._begun:.0f} s)\n"
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads it any more, or it is closed: a run doesn't end by that
                return
