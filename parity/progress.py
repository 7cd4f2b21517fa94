"""How far a run has come: the `Progress` protocol, and a bar per stage on a terminal."""

from __future__ import annotations

import sys
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

current = ""
"""The stage that the command is in."""


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
    """A bar per stage on stderr while the `with` block lasts, gone after it; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr)  # that of now, whatever is put in its place while the bars are shown
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            expand=True,
            disable=not console.is_terminal or console.is_dumb_terminal,
            redirect_stdout=sys.stdout.isatty(),  # what a model prints goes above the bars, but not out of its pipe
        )
        self._current: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Start a bar of `total` steps, one that only moves if None; the bar before it is filled."""
        global current
        current = name
        if self._current is not None:
            task = next(task for task in self._bars.tasks if task.id == self._current)
            self._bars.update(self._current, total=task.total or 1, completed=task.total or 1)
            self._bars.stop_task(self._current)
        self._current = self._bars.add_task(name, total=total)

    def advance(self, n: int = 1) -> None:
        """Move the bar of the current stage by `n` steps."""
        if self._current is not None:
            self._bars.advance(self._current, n)
