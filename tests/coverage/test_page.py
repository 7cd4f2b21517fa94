"""docs/coverage.md is what the gap lists say."""

from __future__ import annotations

import pytest

from tests.coverage import page


def test_the_page_is_up_to_date() -> None:
    pytest.importorskip("expecttest")
    assert page.PAGE.read_text() == page.page(), "stale: run `python -m tests.coverage.page`"
