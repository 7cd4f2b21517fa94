"""Statements of several lines are shown whole; no file is read for it."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from cellbridge.parity.causes.statements import MAX_LINES, whole_statement

CODE = """def forward(self, x):
    y = call(
        x, "a ( in a text",  # and ) in a remark
        [1,
         2],
    )
    z = x + 1
    return (y +
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "code.py"
    path.write_text(CODE + "    0,\n" * MAX_LINES)
    linecache.getline(str(path), 1)
    return str(path)


def test_a_statement_goes_on_to_its_last_bracket(file: str) -> None:
    whole = 'y = call( x, "a ( in a text", [1, 2], )'
    assert whole_statement(file, 2, "y = call(") == whole


def test_other_lines_stay_alone(file: str) -> None:
    assert whole_statement(file, 7, "z = x + 1") == "z = x + 1"
    assert whole_statement(file, 1, "def forward(self, x):") == "def forward(self, x):"
    assert whole_statement(file, 6, ")") == ")"


def test_what_never_ends_is_cut_to_its_line(file: str) -> None:
    assert whole_statement(file, 8, "return (y +") == "return (y +"


def test_a_file_that_was_not_read_stays_unread(tmp_path: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text(CODE)
    assert whole_statement(str(path), 2, "y = call(") == "y = call("
    assert str(path) not in linecache.cache


@pytest.mark.parametrize("line", [0, -3, 2, 10**9])
def test_a_line_that_the_file_does_not_have_stays_alone(file: str, line: int) -> None:
    assert whole_statement(file, line, "z = x + 1") == "z = x + 1"
