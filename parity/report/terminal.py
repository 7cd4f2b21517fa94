"""The text view of a report, on a terminal or as plain text."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.text import Text

from .layout import plain_text, print_lines

WIDTH = 80  # of plain text
MARGIN = 8  # what pytest puts before each line of an exception


class PrintableReport(Protocol):
    """A report that can be printed."""

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """Return the report in lines of at most `width` characters; `verbose` collapses nothing."""

    def failure_lines(self, width: int) -> list[Text]:
        """Return only the failures."""


def render(report: PrintableReport, console: Console, verbose: bool = False) -> None:
    """Print a report; `verbose` collapses nothing and shows every failing check in full."""
    print_lines(report.lines(console.width, verbose), console)


def text(report: PrintableReport) -> str:
    """Return a report as plain text."""
    return plain_text(report.lines(WIDTH))


def failure_text(report: PrintableReport) -> str:
    """Return the failures and the verdict as plain text, for an exception."""
    return plain_text(report.failure_lines(WIDTH - MARGIN)).strip()
