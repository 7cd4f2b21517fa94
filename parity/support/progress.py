"""Progress of a run: the `Progress` protocol, a bar per stage on a terminal, and lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

current = ""
"""The stage that the command is in."""
EVERY = 5.0
"""Seconds between lines if there is no terminal."""


class Progress(Protocol):
    """Receives the stages of a run."""

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage of `total` steps (None if unknown), which ends the previous stage."""

    def advance(self, n: int = 1) -> None:
        """Count `n` more steps of the stage as done."""


class NoProgress:
    """Shows nothing."""

    def stage(self, name: str, total: int | None) -> None:
        """Do nothing."""

    def advance(self, n: int = 1) -> None:
        """Do nothing."""


class ProgressDisplay:
    """Shows the stages of a run within the `with` block.

        with parity.ProgressDisplay() as progress:
            report = parity.check(module, inputs, progress=progress)

    On a terminal there is a bar for each stage, on stderr. A notebook has one line, which is overwritten. Elsewhere a
    line is printed every few seconds.
    """

    def __init__(self) -> None:
        console = Console(file=sys.stderr)  # the current stderr, even if it is replaced while the bars are shown
        on_terminal = sys.stderr.isatty() and not console.is_dumb_terminal  # FORCE_COLOR makes no terminal
        in_notebook = type(sys.stdout).__module__.partition(".")[0] == "ipykernel"
        lines = NotebookLine(sys.stdout) if in_notebook else ProgressLines(sys.stderr)
        self._lines = None if on_terminal else lines
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _TimeLeft(),
            console=console,
            transient=True,
            expand=True,
            disable=not on_terminal,
            redirect_stdout=sys.stdout.isatty(),  # a model's output goes above the bars, but a pipe isn't redirected
        )
        self._current: TaskID | None = None

    def __enter__(self) -> Self:
        if self._lines is not None:
            self._lines.start()
        else:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._lines is not None:
            self._lines.stop()
        else:
            self._bars.stop()  # rich before 14.3 ends even bars that it doesn't show with an empty line

    def stage(self, name: str, total: int | None) -> None:
        """Start a bar of `total` steps, or an indeterminate one for None; the previous bar is filled."""
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
        """Advance the bar of the current stage by `n` steps."""
        if self._lines is not None:
            self._lines.advance(n)
        if self._current is not None:
            task = next(task for task in self._bars.tasks if task.id == self._current)
            done = task.completed + n  # a module may be called several times
            self._bars.update(self._current, completed=done if task.total is None else min(done, task.total))


class _TimeLeft(ProgressColumn):
    """The time that a stage takes yet, at the pace of its steps so far."""

    def render(self, task: Task) -> Text:
        done, total = task.completed, task.total
        seconds = None if total is None or task.finished else seconds_left(task.elapsed or 0.0, done, total)
        return Text("" if seconds is None else f"about {seconds:.0f} s left", style="progress.remaining")


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
