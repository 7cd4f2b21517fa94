"""The HTML pages of the pytest plugin: one for each comparison that fails, in the folder of `--parity-html`."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .report.base import BaseReport

LONGEST = 100  # characters of a test's name in the name of its page


def write_page(report: BaseReport, folder: str, name: str) -> str:
    """Write a failing report to `folder`, and return a line that says where it is.

    Raises:
        UsageError: the file can't be written.
    """
    page = Path(folder) / f"{name}.html"
    report.write_html(page)
    return f"to look at it: {page}"


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
        line = write_page(error.report, folder, name_of_test(shown.nodeid))
    except UsageError as problem:
        line = str(problem)
    shown.sections.append(("parity", line))
