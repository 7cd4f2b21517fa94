"""The end of a command: output files, printed report and exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.console import Console
from rich.text import Text

from ...runtime.errors import UsageError
from ..report.formats import FORMATS
from ..report.layout import echo, paragraph, print_lines
from ..support import files
from .command import NOT_KNOWN, command_with
from .project_options import project_file

if TYPE_CHECKING:  # a report is imported where there is one, so that `--help` is quick
    from ..report.base import BaseReport
    from ..report.report import Report

_REPORT_OPTIONS = (*(f"--{name}" for name in FORMATS), "--repro")


def require_outputs(
    outputs: Mapping[str, str | None], inputs: Mapping[str, str | None], repro: str | None = None
) -> None:
    """Raise `UsageError`, before the work starts, if an output can't be written, or an input would be overwritten.

    Args:
        outputs: files to write, by option.
        inputs: files to read, by option.
        repro: the new folder to write.
    """
    files.require_apart({**outputs, "--repro": repro}, inputs)
    if repro is not None:
        files.require_new_folder(repro)
    for path in outputs.values():
        if path is not None:
            files.require_writable(path)


def add_origin(report: BaseReport) -> None:
    """Let a report say which command line made it, and of each of its conditions where the user gave it.

    Where reports are written changes nothing in them, and a sweep writes them to folders that are gone afterwards.
    """
    context = click.get_current_context()
    reference = context.params.get("reference") if context.command.name == "compare" else None
    report.origin = replace(report.origin, command=command_with(without=_REPORT_OPTIONS), reference=reference or "")
    in_words = {ParameterSource.COMMANDLINE: "given on the command line"}
    if (file := project_file(context)) is not None:
        in_words[ParameterSource.DEFAULT_MAP] = f"from {file}"
    names = {"grads": "no_grad"}
    for name in ("rtol", "atol", "grads", "only", "skip"):
        source = context.get_parameter_source(names.get(name, name))
        if source in in_words:
            report.conditions.sources[name] = in_words[source]
    is_in_file = "probe" in context.params and context.get_parameter_source("probe") is ParameterSource.DEFAULT_MAP
    if is_in_file and not context.params["probe"] and context.command.name == "compare":  # where it is the default
        report.conditions.sources["probe"] = in_words[ParameterSource.DEFAULT_MAP]


def finish(
    report: BaseReport, verbose: bool, files_by_format: Mapping[str, str | None], repro: str | None = None
) -> None:
    """Write a report to the requested files, by format, print it, and exit with its verdict as the code.

    Files come first: who reads the output may close it (`| head`). One that can't be written is said at the end.
    """
    add_origin(report)
    unwritten = _write_files(report, files_by_format)
    print_report(report, verbose)
    _say_unwritten(unwritten)
    if repro is not None and not report.ok and (of_network := _of_network(report)):
        _write_repro(of_network, repro)
    if not report.ok:
        _suggest(report, page=files_by_format["html"] is None, repro=repro is None)
    raise click.exceptions.Exit(exit_code(report))


def _write_files(report: BaseReport, files_by_format: Mapping[str, str | None]) -> list[UsageError]:
    """Write a report to the requested files, by format; return why some couldn't be written."""
    unwritten: list[UsageError] = []
    for name, path in files_by_format.items():
        if path is not None:
            try:
                FORMATS[name].write(report, path)
            except UsageError as error:
                unwritten.append(error)
    return unwritten


def _say_unwritten(unwritten: Sequence[UsageError]) -> None:
    for error in unwritten:
        echo(f"not written: {error}", err=True)


def _of_network(report: BaseReport) -> Report | None:
    """Return the report if it is on one network, Cell by Cell: its failures can be reproduced."""
    from ..report.report import Report

    return report if isinstance(report, Report) else None


def exit_code(report: BaseReport) -> int:
    """Return the exit code that says a report's verdict."""
    return 0 if report.ok else 1 if report.failed else NOT_KNOWN


def _write_repro(report: Report, folder: str) -> None:
    """Write the reproductions, and print what was written and what not."""
    reproductions = report.write_repro(folder)
    texts = [f"reproduced: {path or '(root)'} in {Path(folder) / name}" for path, name in reproductions.folders.items()]
    texts += [f"note on {path or '(root)'}: {note}" for path, note in reproductions.notes.items()]
    texts += [f"no reproduction for {path or '(root)'}: {reason}" for path, reason in reproductions.missing.items()]
    console = Console()
    print_lines([Text(), *(line for text in texts for line in paragraph(text, console.width))], console)


def _suggest(report: BaseReport, *, page: bool, repro: bool) -> None:
    """Print the commands that come next: for a page, and for reproductions if there is a failure to reproduce."""
    if _is_quiet():
        return
    commands = {"to look at it": command_with("--html", "report.html", without=["--repro"])} if page else {}
    if repro and (of_network := _of_network(report)) and of_network.reproducible:
        commands["to reproduce it"] = command_with("--repro", "repro", without=["--html"])
    if commands:
        echo("")
    for what, command in commands.items():
        echo(f"{what}: {command}")


def print_report(report: BaseReport, verbose: bool) -> None:
    """Print a report on stdout; `verbose` prints everything, and `--quiet` lets only the verdict be printed."""
    from ..report import terminal

    if _is_quiet():
        console = Console()
        print_lines(terminal.verdict_lines(report, console.width), console)
    else:
        terminal.render(report, Console(), verbose)


def _is_quiet() -> bool:
    return bool(click.get_current_context().params.get("quiet"))


def require_parity(report: BaseReport, verbose: bool, output: str, html: str | None) -> None:
    """Write the page that is asked for; print a failing report and exit with code 1, of others the verdict alone."""
    add_origin(report)
    unwritten = _write_files(report, {"html": html})
    if report.failed or report.is_not_known:
        print_report(report, verbose)
        _say_unwritten(unwritten)
        _suggest(report, page=html is None, repro=False)
        verdict = "parity fails" if report.failed else "parity is not known"
        echo(f"error: {output} was not written, since {verdict} (--no-check writes it anyway)", err=True)
        raise click.exceptions.Exit(exit_code(report))
    for note in report.notes:
        echo(f"note: {note}", err=True)
    console = Console()
    print_lines(paragraph(f"✓ {report.sentence}", console.width), console)
    _say_unwritten(unwritten)
