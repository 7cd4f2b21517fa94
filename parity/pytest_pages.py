"""The pages of the pytest plugin, in the folder of `--parity-html`: one on each failing comparison, an overview."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .report.base import BaseReport

LONGEST = 100  # characters of a test's name in the name of its page


SUMMARY = "parity_summary"
"""The attribute of a test's report that has the line of the overview; xdist sends it from its workers."""


class Overview:
    """The plugin that writes the overview at the end: in xdist's controller, not in its workers.

    Attributes:
        folder: the folder of the pages.
        summaries: the lines, by model file or test.
        line: what is said in the terminal.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.summaries: dict[str, dict[str, Any]] = {}
        self.line = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the line of a test, once for all tests of a model file."""
        if summary := vars(report).get(SUMMARY):
            self.summaries[summary["model"]] = summary

    def pytest_sessionfinish(self) -> None:
        """Write the overview, if something was compared."""
        from ..runtime.errors import UsageError
        from .report.html import overview
        from .results.origin import Origin
        from .support.files import make_folder

        if not self.summaries:
            return
        try:
            make_folder(self.folder)
            summaries = [overview.Summary(**summary) for summary in self.summaries.values()]
            overview.write(summaries, Origin(command=""), Path(self.folder))
            self.line = f"parity: the overview is {Path(self.folder) / overview.INDEX}"
        except UsageError as error:
            self.line = f"parity: {error}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the overview is."""
        if self.line:
            terminalreporter.write_line(self.line)


def write_page(report: BaseReport, folder: str, name: str) -> str:
    """Write a failing report to `folder`, and return a line that says where it is.

    Raises:
        UsageError: the file can't be written.
    """
    from .report.html import writer

    writer.write_in(folder, f"{name}.html", report.page())
    return f"to look at it: {Path(folder) / name}.html"


def summary_of(report: BaseReport, model: str, seconds: float, page: str) -> dict[str, Any]:
    """Return a report's line of the overview, as JSON values; `page` is the name of its page, empty if it has none."""
    from .report.html.overview import Summary

    return asdict(Summary.of(report.page(), model, seconds, page))


def summary_without_report(model: str, reason: str) -> dict[str, Any]:
    """Return the line of a model file that couldn't be judged, as JSON values."""
    from .report.html.overview import Summary

    return asdict(Summary(model, "not judged", reason.partition("\n")[0]))


def name_of_file(nodeid: str) -> str:
    """Return the name of a model file's page: its path within the root folder, with dots for slashes."""
    return nodeid.removesuffix(".py").replace("/", ".").lstrip(".")


def name_of_test(nodeid: str) -> str:
    """Return the name of a test's page; a few digits of a hash tell tests apart that have similar names."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", ".", nodeid).strip(".")[-LONGEST:]
    return f"{readable}-{hashlib.sha256(nodeid.encode(errors='replace')).hexdigest()[:6]}"


def add_page(call: pytest.CallInfo[Any], shown: pytest.TestReport, folder: str) -> None:
    """Write a page if a test has failed because of `assert_parity`, and say in its output where it is."""
    from ..runtime.errors import ParityError, UsageError
    from .report.base import BaseReport
    from .support.files import make_folder

    error = call.excinfo.value if call.excinfo is not None else None
    if not shown.failed or not isinstance(error, ParityError) or not isinstance(error.report, BaseReport):
        return
    try:
        make_folder(folder)
        name = name_of_test(shown.nodeid)
        line = write_page(error.report, folder, name)
        vars(shown)[SUMMARY] = summary_of(error.report, shown.nodeid, shown.duration, f"{name}.html")
    except UsageError as problem:
        line = str(problem)
    shown.sections.append(("parity", line))
