"""The view for a machine: `Report.to_dict()` as JSON; `docs/report-schema.md` describes it."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

from ...runtime.visible import encodable_name
from ..support.files import write_text
from .base import BaseReport


def write(report: BaseReport, path: str | PathLike[str]) -> None:
    """Write the report to `path`, whole or not at all; `UsageError` if that isn't possible.

    What text can't hold, the half of a pair of surrogates in a name, is its number there.
    """
    write_text(path, json.dumps(_encodable(report.to_dict()), indent=2, allow_nan=False) + "\n")


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable_name(value)
    if isinstance(value, dict):
        return {encodable_name(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, (list, tuple)) else value
