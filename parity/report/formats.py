"""The formats that a report is written in, by the names of their options: `--json FILE`, `--junit FILE`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import json_report, junit
from .base import BaseReport


@dataclass(frozen=True)
class Format:
    """A format of report files.

    Attributes:
        write: writes a report to a path, whole or not at all; `UsageError` if that isn't possible.
        help: what `--help` says of the option.
    """

    write: Callable[[BaseReport, str], None]
    help: str


FORMATS = {
    "json": Format(json_report.write, "Write the report as JSON (docs/report-schema.md)."),
    "junit": Format(junit.write, "Write the report as JUnit XML."),
}
