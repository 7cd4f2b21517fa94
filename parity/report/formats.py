"""The formats of report files, by the names of their options: `--json FILE`, `--junit FILE`, `--html FILE`.

What writes them is imported when a report is written, so that `--help` is quick.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...runtime.visible import encodable_name
from ..support.files import write_text

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
    """Write `to_dict()`; a lone surrogate in a name, which text can't hold, is written as its number."""
    write_text(path, json.dumps(_encodable(report.to_dict()), indent=2, allow_nan=False) + "\n")


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable_name(value)
    if isinstance(value, dict):
        return {encodable_name(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, (list, tuple)) else value


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
