"""Progress of a run: the `Progress` protocol, and `ProgressDisplay`, which shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console

from .progress_lines import NotebookLine, ProgressLines

if TYPE_CHECKING:
    from .progress_bars import ProgressBars

current = ""
"""The stage that the command is in."""


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
        in_notebook = type(sys.stdout).__module__.partition(".")[0] == "ipykernel"
        self._shown: ProgressLines | ProgressBars
        if sys.stderr.isatty() and not console.is_dumb_terminal:  # FORCE_COLOR makes no terminal
            from .progress_bars import ProgressBars  # so that `parity --help` is quick

            self._shown = ProgressBars(console)
        else:
            self._shown = NotebookLine(sys.stdout) if in_notebook else ProgressLines(sys.stderr)

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage of `total` steps (None if unknown)."""
        global current
        current = name
        self._shown.stage(name, total)

    def advance(self, n: int = 1) -> None:
        """Count `n` more steps of the stage as done."""
        self._shown.advance(n)
