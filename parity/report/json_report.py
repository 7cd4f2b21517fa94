"""The JSON view: `Report.to_dict()` as a file; `docs/report-schema.md` describes it."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

from ...runtime.visible import encodable_name
from ..support.files import write_text
from .base import BaseReport


def write(report: BaseReport, path: str | PathLike[str]) -> None:
    """Write the report to `path`, completely or not at all; raise `UsageError` if that fails.

    A lone surrogate in a name, which text can't hold, is written as its number.
    """
    write_text(path, json.dumps(_encodable(report.to_dict()), indent=2, allow_nan=False) + "\n")


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable_name(value)
    if isinstance(value, dict):
        return {encodable_name(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, (list, tuple)) else value
