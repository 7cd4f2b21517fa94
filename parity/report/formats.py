"""The formats of report files, by the names of their options: `--json FILE`, `--junit FILE`, `--html FILE`.

What writes them is imported when a report is written, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import BaseReport


@dataclass(frozen=True)
class Format:
    """A format of report files.

    Attributes:
        write: writes a report to a path, completely or not at all; raises `UsageError` if that fails.
        help: text of `--help` for the option.
    """

    write: Callable[[BaseReport, str], None]
    help: str


def _write_json(report: BaseReport, path: str) -> None:
    from . import json_report

    json_report.write(report, path)


def _write_junit(report: BaseReport, path: str) -> None:
    from . import junit

    junit.write(report, path)


def _write_html(report: BaseReport, path: str) -> None:
    report.write_html(path)


FORMATS = {
    "json": Format(_write_json, "Write the report as JSON (docs/report-schema.md)."),
    "junit": Format(_write_junit, "Write the report as JUnit XML."),
    "html": Format(_write_html, "Write the report as an HTML page to look at; it needs no network."),
}
