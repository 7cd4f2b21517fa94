"""The view for a person: the lines of a report, on a terminal or as plain text."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.text import Text

from .layout import plain, show

WIDTH = 80  # of text that isn't for a terminal


class Lines(Protocol):
    """What a report gives for people to read."""

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """All of it, in lines of at most `width` characters; with `verbose` nothing is collapsed."""

    def failure_lines(self, width: int) -> list[Text]:
        """What is wrong, without what isn't."""


def render(report: Lines, console: Console, verbose: bool = False) -> None:
    """Print a report; `verbose` collapses nothing and shows every failing check in full."""
    show(report.lines(console.width, verbose), console)


def text(report: Lines) -> str:
    """A report as plain text."""
    return plain(report.lines(WIDTH))


def failure_text(report: Lines) -> str:
    """What is wrong and the verdict, as plain text."""
    return plain(report.failure_lines(WIDTH)).strip()
