"""Progress on a terminal: a bar for each stage."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from .progress_lines import seconds_left


class ProgressBars:
    """Shows a bar for each stage; the bars are gone at the end."""

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _TimeLeft(),
            console=console,
            transient=True,
            expand=True,
            redirect_stdout=sys.stdout.isatty(),  # a model's output goes above the bars, but a pipe isn't redirected
        )
        self._current: TaskID | None = None

    def start(self) -> None:
        """Show the bars."""
        self._bars.start()

    def stop(self) -> None:
        """Remove the bars."""
        self._bars.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Start a bar of `total` steps, or an indeterminate one for None; the previous bar is filled."""
        if self._current is not None:
            task = next(task for task in self._bars.tasks if task.id == self._current)
            self._bars.update(self._current, total=task.total or 1, completed=task.total or 1)
            self._bars.stop_task(self._current)
        self._current = self._bars.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        """Advance the bar of the current stage by `n` steps."""
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
