"""The view for a machine: `Report.to_dict()` as JSON; `docs/report-schema.md` describes it."""

from __future__ import annotations

import json
from os import PathLike

from ..files import write_text
from ..results import Report
from ..training_report import TrainingReport


def write(report: Report | TrainingReport, path: str | PathLike[str]) -> None:
    """Write the report to `path`, whole or not at all; `UsageError` if that isn't possible."""
    write_text(path, json.dumps(report.to_dict(), indent=2, allow_nan=False) + "\n")
