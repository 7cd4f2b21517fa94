"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellbridge.parity.report.base import BaseReport
from tests.parity.html.browser import Browser, browser
from tests.parity.html.pages import Opened


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def opened(chromium: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens the page of a report; at the end the browser must have had nothing to complain of and nothing to fetch."""

    def open_page(of: BaseReport, **options: Any) -> Browser:
        of.write_html(tmp_path / "report.html")
        chromium.open(tmp_path / "report.html", **options)
        return chromium

    yield open_page
    chromium.run("1")  # its complaints come before the answer
    assert chromium.complaints == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:", "about:"))] == []
