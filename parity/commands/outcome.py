"""The end of a command: output files, printed report and exit code."""

from __future__ import annotations

from collections.abc import Mapping

import click
from rich.console import Console

from ..report import terminal
from ..report.base import BaseReport
from ..report.formats import FORMATS
from ..report.layout import echo
from ..support import files
from .command import command_with


def require_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise `UsageError`, before the work starts, if a file can't be written, or an input would be overwritten."""
    files.require_apart(outputs, inputs)
    for path in outputs.values():
        if path is not None:
            files.require_writable(path)


def file_of(model: str) -> str:
    """The file of `path/model.py:factory`."""
    head, _, factory = model.rpartition(":")
    return head if head and factory.isidentifier() else model


def finish(report: BaseReport, verbose: bool, files_by_format: Mapping[str, str | None]) -> None:
    """Write a report to the requested files, by format, print it, and exit with its verdict as the code."""
    for name, path in files_by_format.items():
        if path is not None:
            FORMATS[name].write(report, path)
    print_report(report, verbose)
    if not report.ok and files_by_format["html"] is None:
        echo(f"\nto look at it: {command_with('--html', 'report.html')}")
    raise click.exceptions.Exit(0 if report.ok else 1)


def print_report(report: BaseReport, verbose: bool) -> None:
    """Print a report on stdout; `verbose` prints everything."""
    terminal.render(report, Console(), verbose)


def require_parity(report: BaseReport, verbose: bool, output: str) -> None:
    """Print a failing report and exit with code 1; print only the notes of a passing one."""
    if not report.ok:
        print_report(report, verbose)
        echo(f"error: {output} was not written, since parity fails (--no-check writes it anyway)", err=True)
        raise click.exceptions.Exit(1)
    for note in report.notes:
        echo(f"note: {note}", err=True)
