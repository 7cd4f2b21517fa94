"""A reproduction is the same on a busy machine as on an idle one; where its search was cut, that is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellbridge.parity.causes.reproduction import search
from tests.parity.causes.reproduction.test_reproduction import compare, detached, element, eps, only_folder
from tests.parity.causes.test_budget import slow_clock

pytestmark = [pytest.mark.causes, pytest.mark.usefixtures("quick")]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "README.md"}


@pytest.mark.every(3)
@pytest.mark.parametrize("fault", [eps, detached, element])
def test_a_slow_clock_changes_no_reproduction(
    fault: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = compare(fault)
    expected = files(only_folder(report, tmp_path / "idle"))
    monkeypatch.setattr(time, "monotonic", slow_clock(4.0))
    folder = only_folder(report, tmp_path / "busy")
    assert files(folder) == expected
    assert "was cut" not in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [("GUARD_SECONDS", 7.0, "after 7 s"), ("WORK", 3e5, "at its limit of work")],
)
def test_a_search_that_was_cut_says_so(
    limit: str, value: float, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = compare(eps)
    monkeypatch.setattr(search, limit, value)
    monkeypatch.setattr(time, "monotonic", slow_clock(4.0))
    written = report.write_repro(tmp_path / "repro")
    (note,) = written.notes.values()
    assert note.startswith(f"the search for a smaller case was cut {says}: ")
    (name,) = written.folders.values()
    assert f"It may not be the smallest: {note}." in (tmp_path / "repro" / name / "README.md").read_text()


def test_the_limit_of_work_gives_the_same_reproduction_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "WORK", 3e5)
    first, second = (files(only_folder(compare(eps), tmp_path / name)) for name in ("first", "again"))
    assert first == second
