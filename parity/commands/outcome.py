"""How a command ends: the files that it may write, what it shows, and its exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from .. import files
from ..report.layout import echo

if TYPE_CHECKING:
    from ..results import Report
    from ..training_report import TrainingReport


def require_outputs(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise `UsageError`, before the work starts, if a file can't be written, or what is read would be overwritten."""
    files.require_apart(outputs, inputs)
    for path in outputs.values():
        if path is not None:
            files.require_writable(path)


def file_of(model: str) -> str:
    """The file of `path/model.py:factory`."""
    head, _, factory = model.rpartition(":")
    return head if head and factory.isidentifier() else model


def finish(report: Report | TrainingReport, verbose: bool, json_file: str | None, junit_file: str | None) -> None:
    """Write and show a report; the exit code is its verdict."""
    if json_file is not None:
        from ..report import json_report

        json_report.write(report, json_file)
    if junit_file is not None:
        from ..report import junit

        junit.write(report, junit_file)
    show(report, verbose)
    raise click.exceptions.Exit(0 if report.ok else 1)


def show(report: Report | TrainingReport, verbose: bool) -> None:
    """Show a report on stdout; `verbose` shows all of it."""
    from rich.console import Console

    from ..report import terminal, training
    from ..training_report import TrainingReport

    if isinstance(report, TrainingReport):
        training.render(report, Console())
    else:
        terminal.render(report, Console(), verbose)


def passed(report: Report | TrainingReport, verbose: bool, output: str) -> None:
    """Show a report that fails, and end; tell the notes of one that passes."""
    if not report.ok:
        show(report, verbose)
        echo(f"error: {output} was not written, since parity fails (--no-check writes it all the same)", err=True)
        raise click.exceptions.Exit(1)
    for note in report.notes:
        echo(f"note: {note}", err=True)
