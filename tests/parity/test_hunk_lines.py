"""A failing Cell is shown as a hunk: the reference's lines beside the candidate's, with the Cells that were paired."""

from __future__ import annotations

import io
import re

from rich.console import Console

from cellbridge.parity.report.hunks import MAX_LINES, hunk_lines, pairs_in_words
from cellbridge.parity.report.layout import plain_text, print_lines
from cellbridge.parity.results.correspondence import PairedCell
from cellbridge.parity.results.hunk import NOWHERE, CodeLine, Hunk

SIDES = "reference", "candidate"
OURS = CodeLine("library/model.py", 9, "x = gelu(x, approximate='tanh')", ("gelu",))
THEIRS = CodeLine("port.py", 120, "x = gelu(x)", ("gelu",))


def shown(hunk: Hunk, width: int = 80) -> list[str]:
    return plain_text(hunk_lines(hunk, SIDES, width)).split("\n")


def test_lines_of_both_sides_stand_below_their_files() -> None:
    assert shown(Hunk((OURS,), (THEIRS,))) == [
        "  --- library/model.py",
        "  -   9 x = gelu(x, approximate='tanh')",
        "  +++ port.py",
        "  + 120 x = gelu(x)",
    ]


def test_without_a_line_the_ops_are_named_or_the_node_of_a_file() -> None:
    node = CodeLine(text="Gelu /act/Gelu (approximate=tanh)", ops=("gelu",))
    assert shown(Hunk((CodeLine(ops=("mul", "tanh")),), (node,))) == [
        "  --- reference",
        "  - mul, tanh",
        "  +++ candidate",
        "  + Gelu /act/Gelu (approximate=tanh)",
    ]


def test_one_side_alone_is_shown_alone() -> None:
    assert shown(Hunk((OURS,))) == ["  --- library/model.py", "  - 9 x = gelu(x, approximate='tanh')"]
    assert hunk_lines(NOWHERE, SIDES, 80) == []


def test_lines_that_both_sides_have_are_no_difference() -> None:
    assert shown(Hunk((OURS,), (OURS,))) == ["    from library/model.py:9", "      x = gelu(x, approximate='tanh')"]


def test_long_lines_are_wrapped_and_cut() -> None:
    long = CodeLine("a.py", 7, "x = " + " + ".join(f"term_{number}" for number in range(99)))
    lines = shown(Hunk((long,), (THEIRS,)))
    first = [line for line in lines if line.startswith("  - ")]
    assert len(first) == 3
    assert first[-1].endswith("…")
    assert all(len(line) <= 80 for line in lines)
    assert first[0].startswith("  -   7 x = term_0 + ")


def test_many_lines_are_counted() -> None:
    lines = tuple(CodeLine("a.py", number, f"x{number} = f()") for number in range(1, MAX_LINES + 4))
    assert shown(Hunk(lines, (THEIRS,)))[MAX_LINES + 1] == "  - and 3 more"


def test_installed_files_are_named_from_their_package() -> None:
    installed = CodeLine("/home/me/v env/lib/python3.11/site-packages/torch/nn/modules/linear.py", 1, "x")
    assert shown(Hunk((installed,), (THEIRS,)))[0] == "  --- torch/nn/modules/linear.py"


def test_only_a_terminal_has_colours() -> None:
    lines = hunk_lines(Hunk((OURS,), (THEIRS,)), SIDES, 80)
    for is_terminal in (False, True):
        stream = io.StringIO()
        print_lines(
            lines,
            Console(
                file=stream, force_terminal=is_terminal, color_system="standard" if is_terminal else "auto", width=80
            ),
        )
        text = stream.getvalue()
        assert ("\x1b[31m  -   9" in text) == is_terminal
        assert ("\x1b[32m  + 120" in text) == is_terminal
        assert re.sub("\x1b\\[[0-9;]*m", "", text) == plain_text(lines) + "\n"


def test_invisible_characters_of_a_source_are_made_visible() -> None:
    hostile = CodeLine("a.py", 1, "x = '\x1b[31m\u202e'")
    assert "\x1b" not in "\n".join(shown(Hunk((hostile,), (THEIRS,))))
    assert "\u202e" not in "\n".join(shown(Hunk((hostile,), (THEIRS,))))


def test_pairs_are_counted_by_how_they_were_found() -> None:
    pair = PairedCell("a", "A", "b", "B", "values")
    joined = PairedCell("c", "A", "b", "B", "values", layout="joined")
    assert pairs_in_words([pair]) == "1 Cell is paired by values"
    assert pairs_in_words([pair, pair, joined]) == "2 Cells are paired by values, 1 by values (joined)"
