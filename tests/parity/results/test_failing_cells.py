"""Which Cells fail: every view of a report counts the same ones, and none that differs only because of others."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cellbridge.parity.jobs.sweeping.limits import Ended
from cellbridge.parity.jobs.sweeping.result import _judged
from cellbridge.parity.report.cases import network_cases
from cellbridge.parity.report.html.overview import Summary
from cellbridge.parity.report.items import outcomes
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import FAIL, NOT_COMPARED
from tests.parity.reports import SIDES, cell, failing, report

CELLS = {"": "Net", "a": "Block", "a.norm": "LayerNorm", "b": "Block", "c": "Linear", "d": "Linear"}
WRONG = failing()
BEHIND = failing(feeding="end to end")
LATER = failing(feeding="second call")
LOST = failing(feeding="end to end", kind="input gradient", status=NOT_COMPARED, reason="no counterpart", index=None)

REPORTS: dict[str, tuple[Report, set[str]]] = {
    "all agree": (report(CELLS), set()),
    "a Cell, and those after it": (
        report(CELLS, cell("a.norm", "LayerNorm", WRONG), cell("a", "Block", BEHIND), cell("", "Net", BEHIND)),
        {"a.norm"},
    ),
    "a later call because of a Cell": (
        report(CELLS, cell("a.norm", "LayerNorm", WRONG), cell("", "Net", LATER)),
        {"a.norm"},
    ),
    "what can't be compared behind a Cell": (
        report(CELLS, cell("c", "Linear", WRONG), cell("", "Net", LOST), cell("d", "Linear", LOST)),
        {"c"},
    ),
    "two Cells": (
        report(CELLS, cell("c", "Linear", WRONG), cell("d", "Linear", WRONG), cell("", "Net", BEHIND)),
        {"c", "d"},
    ),
    "the network alone, end to end": (report(CELLS, cell("", "Net", BEHIND)), {""}),
    "an inner one end to end": (report(CELLS, cell("a", "Block", BEHIND), cell("", "Net", BEHIND)), {"a"}),
    "what can't be compared": (report(CELLS, cell("", "Net", LOST)), {""}),
}


def of_json(of: Report) -> set[str]:
    document = json.loads(json.dumps(of.to_dict()))
    by_verdict = {entry["path"] for entry in document["cells"] if entry["verdict"] in (FAIL, NOT_COMPARED)}
    assert by_verdict == set(document["failing"])
    return by_verdict


def of_junit(of: Report) -> set[str]:
    names = {case.name.partition("[")[0] for case in network_cases(of) if case.outcome == "failure"}
    return {"" if name == "(root)" else name for name in names}


def of_pytest(of: Report) -> set[str]:
    item_outcomes = outcomes(of, [(path, side) for path in CELLS for side in SIDES])
    return {path for (path, _), (outcome, _) in item_outcomes.items() if outcome == FAIL}


VIEWS: dict[str, Callable[[Report], set[str]]] = {
    "Python": lambda of: set(of.failing),
    "JSON": of_json,
    "JUnit": of_junit,
    "pytest": of_pytest,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", REPORTS)
def test_every_view_has_the_same_failing_cells(name: str, view: str) -> None:
    of, wrong = REPORTS[name]
    assert VIEWS[view](of) == wrong


@pytest.mark.parametrize("name", REPORTS)
def test_every_count_is_of_the_same_cells(name: str) -> None:
    of, wrong = REPORTS[name]
    in_words = f"{len(wrong)} of {len(CELLS)} Cells"
    text = json.dumps(of.to_dict())
    swept = _judged("net.py", Ended(1 if wrong else 0, "", "", 1.0, 1), text, b"")
    assert swept.failing == in_words
    assert Summary.of(of.page(), "net.py", 1.0).failing == in_words
    verdicts = [verdict for verdict in of.verdicts.values() if verdict in (FAIL, NOT_COMPARED)]
    assert len(verdicts) == len(wrong)
    if wrong:
        assert swept.reason == of.sentence
        assert f"Parity fails in {len(wrong)} Cell" in str(of)
