"""What a notebook shows of a report: the page in a frame, where its keys and script work, and a table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cellbridge.runtime.errors import UsageError
from tests.parity.html.browser import COMMAND, browser
from tests.parity.html.test_page import FAULTY
from tests.parity.reports import cell, failing, report


@pytest.mark.skipif(COMMAND is None, reason="there is no Chromium")
def test_the_page_works_in_a_frame(tmp_path: Path) -> None:
    (tmp_path / "notebook.html").write_text(f"<!doctype html><p>Notebook</p>{FAULTY._repr_html_()}", "utf-8")
    with browser() as page:
        page.open(tmp_path / "notebook.html", height=700)
        with page.frame():
            page.run("document.querySelector('.fault a').click()")
            assert not page.run("document.getElementById('detail').hidden")
            assert page.run("scrollY") > 0
            assert page.complaints == []
        assert page.complaints == []
        assert page.run("document.querySelector('iframe').contentDocument") is None, "its script reaches the notebook"


def test_names_don_t_end_the_frame() -> None:
    text = report({}, cell('a"></iframe><script>alert(1)</script>', "Linear", failing()))._repr_html_()
    assert "<script>" not in text
    assert text.count("</iframe>") == 1


def test_each_comparison_has_a_row() -> None:
    shown = report({}, cell("", "Net"), cell("fc", "Linear", failing()))
    table = shown.to_frame()
    assert len(table) == sum(len(each.comparisons) for each in shown.cells.values())
    assert {*table.loc[table.status == "fail", "path"]} == {"fc"}
    assert {"path", "class_name", "verdict", "side", "kind", "tensor", "error", "ratio"} <= {*table.columns}


def test_without_pandas_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        report({"": "Net"}).to_frame()
