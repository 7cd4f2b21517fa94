"""The formats of report files, by the names of their options: `--json FILE`, `--junit FILE`, `--html FILE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import json_report, junit
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


FORMATS = {
    "json": Format(json_report.write, "Write the report as JSON (docs/report-schema.md)."),
    "junit": Format(junit.write, "Write the report as JUnit XML."),
    "html": Format(BaseReport.write_html, "Write the report as an HTML page to look at; it needs no network."),
}
