"""The text view of a report, on a terminal or as plain text."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.text import Text

from ..results.origin import Origin
from .layout import paragraph, plain_text, print_lines

WIDTH = 80  # of plain text
MARGIN = 8  # what pytest puts before each line of an exception


class PrintableReport(Protocol):
    """A report that can be printed."""

    def lines(self, width: int, verbose: bool = False) -> list[Text]:
        """Return the report in lines of at most `width` characters; `verbose` collapses nothing."""

    def failure_lines(self, width: int) -> list[Text]:
        """Return only the failures."""

    @property
    def origin(self) -> Origin:
        """When, by which versions and by which command line it was made."""

    @property
    def sentence(self) -> str:
        """The verdict in words."""

    @property
    def headline(self) -> str:
        """What is wrong in a few words."""

    @property
    def mark(self) -> str:
        """`✓`, `✗`, or `!`."""


def render(report: PrintableReport, console: Console, verbose: bool = False) -> None:
    """Print a report; `verbose` collapses nothing and shows every failing check in full."""
    lines = report.lines(console.width, verbose)
    print_lines(lines + (origin_lines(report.origin, console.width) if verbose else []), console)


def origin_lines(origin: Origin, width: int) -> list[Text]:
    """Return when, by which versions and by which command line something was made."""
    return [line for name, fact in origin.facts for line in paragraph(f"{name.lower()}: {fact}", width, 2, "dim")]


def verdict_lines(report: PrintableReport, width: int) -> list[Text]:
    """Return the verdict, and below it the first cause, where one is known."""
    lines = paragraph(f"{report.mark} {report.sentence}", width)
    return lines if report.headline == report.sentence else lines + paragraph(report.headline, width, 2)


def text(report: PrintableReport) -> str:
    """Return a report as plain text."""
    return plain_text(report.lines(WIDTH))


def failure_text(report: PrintableReport) -> str:
    """Return the failures, the verdict and where the report comes from as plain text, for an exception."""
    width = WIDTH - MARGIN
    failures = plain_text(report.failure_lines(width)).strip()
    return f"{failures}\n\n{plain_text(origin_lines(report.origin, width))}".rstrip()
