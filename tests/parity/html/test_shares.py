"""The table of shares in the error: what is listed, what is added up, and what cancels."""

from __future__ import annotations

import json

import pytest

from cellbridge.parity.report.html.costs import costs_table
from cellbridge.parity.report.html.shares import MOST, shares_table
from cellbridge.parity.report.html.writer import to_html
from cellbridge.parity.results.error_shares import ErrorShares
from cellbridge.parity.results.quantization_costs import CellCost, Errors, Mixture, QuantizationCosts
from tests.parity.html.test_page import Parsed
from tests.parity.reports import CONVNET, cell, failing, report


def test_lines_are_the_shares_and_what_they_leave() -> None:
    table = shares_table(ErrorShares("candidate", "meaning", True, 2.0, {"": 1.5, "a": -0.5, "b": 0.75}), ["", "a"])
    assert table.error == "to first order in the outputs, the loss is off by 2"
    shown = [(line.name, line.link, line.value, line.percent, line.width, line.adds) for line in table.lines]
    assert shown == [
        ("(root)", "#cell=%28root%29", "1.5", "50.0%", 100, True),
        ("b", "", "0.75", "25.0%", 50, True),
        ("a", "#cell=a", "-0.5", "-16.7%", 33.3, False),
        ("not explained to first order", "", "0.25", "8.3%", 16.7, True),
    ]


def test_small_shares_are_added_up() -> None:
    cells = {f"c{i}": 1.0 for i in range(2 * MOST)} | {"tiny": 1e-9}
    table = shares_table(ErrorShares("candidate", "meaning", False, 2.0 * MOST, cells), list(cells))
    assert len(table.lines) == MOST + 2
    assert (table.lines[-2].name, table.lines[-2].value) == (f"{MOST + 1} other Cells", f"{MOST}")
    assert table.error == f"the sum of outputs times random cotangents is off by {2 * MOST}"
    values = [float(line.value) for line in table.lines]
    assert sum(values) == pytest.approx(2 * MOST)


def test_shares_that_cancel_are_no_thousands_of_percent() -> None:
    table = shares_table(ErrorShares("candidate", "meaning", False, 1e-4, {"a": 1.0, "b": -1.0}), ["a", "b"])
    assert [line.percent for line in table.lines] == ["50.0%", "-50.0%", "0.0%"]
    assert [line.adds for line in table.lines][:2] == [True, False]


def test_an_error_of_nothing_is_no_division_by_zero() -> None:
    table = shares_table(ErrorShares("candidate", "meaning", False, 0.0, {"a": 0.0}), ["a"])
    assert [line.width for line in table.lines] == [0.0, 0.0]


def test_the_page_has_the_table_without_any_script() -> None:
    of = report(CONVNET, cell("stem", "Conv2d", failing()))
    of.error_shares = [ErrorShares("<b>side", "meaning", False, 1.0, {"stem": 0.9, "<script>x()": 0.05})]
    html = to_html(of.page())
    parsed = Parsed(html)
    assert ("a", {"href": "#cell=stem"}) in parsed.tags
    assert "&lt;script&gt;x()" in html
    assert "&lt;b&gt;side" in html
    assert len([tag for tag, _ in parsed.tags if tag == "script"]) == 2
    assert "Where the error comes from" in html
    assert "Where the error comes from" not in to_html(report(CONVNET).page())


def test_what_8_bits_cost_is_on_the_page() -> None:
    files = (
        Mixture((), Errors(0.05, 0.1, 0.02), 10**6, 0.001),
        Mixture(("stem",), Errors(0.03, 0.0, 0.0), 2 * 10**6, 0.0015),
    )
    cells = (
        CellCost("stem", Errors(0.04, 0.1, 0.01), 1000),
        CellCost("<b>x", Errors(0.03, 0.0, None), 5),
        CellCost("free", Errors(0.0, 0.0, None), 0),
    )
    costs = QuantizationCosts(8, 3, 4 * 10**6, 0.002, cells, ("attention",), files, "outputs 4%")
    table = costs_table(costs, ["stem"])
    assert [(line.name, line.outputs, line.share, line.loss, line.width) for line in table.lines] == [
        ("stem", "4.00%", "64.0%", "+1.00%", 100.0),
        ("<b>x", "3.00%", "36.0%", "", 75.0),
    ]
    assert [line.link for line in table.lines] == ["#cell=stem", ""]
    assert "together 5.00%" in table.caption
    assert "1 Cell that cost less or nothing aren't listed" in table.caption
    assert [(file.name, file.size, file.time, file.outputs, file.chosen) for file in table.files] == [
        ("float32", "4", "2", "", False),
        ("all Cells in 8 bits", "1", "1", "5.00%", False),
        ("1 of 3 Cells in float32", "2", "1.5", "3.00%", True),
    ]
    of = report(CONVNET)
    of.quantization = costs
    html = to_html(of.page())
    assert "What 8 bits cost" in html
    assert "&lt;b&gt;x" in html
    assert "What 8 bits cost" not in to_html(report(CONVNET).page())
    assert json.loads(json.dumps(of.to_dict()))["quantization"]["files"][1]["kept"] == ["stem"]
