"""Several models in one command: each is judged and printed, and an overview lists their verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import click

from ...runtime.errors import CellbridgeError
from ..report.base import BaseReport
from ..report.html import overview, writer
from ..report.html.overview import Summary, page_name
from ..report.layout import echo
from ..results.origin import Origin
from ..support.files import make_folder
from .command import command_with, say_error
from .outcome import add_origin, exit_code, print_report

FOLDER = "reports"
"""The folder in the command that is printed after a failure."""


def judge_several(
    models: Sequence[str], judge: Callable[[str], BaseReport], verbose: bool, folder: str | None
) -> NoReturn:
    """Judge models one after another, print each report and at the end all verdicts, and exit.

    The exit code is 1 if parity fails in a model, or else that of the first model in which it isn't shown.

    Args:
        models: the models, as the user names them.
        judge: returns the report on one, or raises `CellbridgeError`; then the others are judged all the same.
        verbose: whether everything is printed.
        folder: where a page on each model is written, and the overview, after each model; None for no pages.

    Raises:
        UsageError: the folder can't be made, or a file can't be written.
    """
    if folder is not None:
        make_folder(folder)
    summaries: list[Summary] = []
    codes: list[int] = []
    for number, model in enumerate(models, 1):
        echo(f"{number} of {len(models)}: {model}")
        started = time.monotonic()
        try:
            report = judge(model)
        except CellbridgeError as error:
            say_error(error, str(error), click.get_current_context())
            codes.append(error.exit_code)
            reason = str(error).partition("\n")[0]
            summaries.append(Summary(model, "not judged", reason, seconds=time.monotonic() - started))
        else:
            add_origin(report)
            page = report.page()
            file = "" if folder is None else page_name(model, [summary.page for summary in summaries])
            summaries.append(Summary.of(page, model, time.monotonic() - started, file))
            if folder is not None:
                writer.write_in(folder, file, page)
            print_report(report, verbose)
            codes.append(exit_code(report))
        if folder is not None:
            overview.write(summaries, Origin(command=command_with()), Path(folder))
        echo("")
    for summary in summaries:
        echo(f"{summary.mark} {summary.model}: {summary.verdict}")
    if any(codes) and folder is None:
        echo(f"\nto look at it: {command_with('--html', FOLDER)}")
    raise click.exceptions.Exit(1 if 1 in codes else next(filter(None, codes), 0))
