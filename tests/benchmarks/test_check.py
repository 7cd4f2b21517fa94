"""`python -m benchmarks --check` finds what got slower, and nothing else."""

from __future__ import annotations

import pytest

from benchmarks import check, tables
from benchmarks.tables import Row


def section(*ratios: float, title: str = "Ours by the peer's") -> str:
    row = Row("resnet18", "wall time", "s", ratios, [1.0] * len(ratios), target=3)
    return tables.section(title, "How it was measured.", tables.table([row]))


def speedups(*ratios: float) -> str:
    head = "| network | against | ours | peer | peer / ours | range | target |\n|---|---|---|---|---|---|---|\n"
    least, median, largest = ratios
    return (
        f"{head}| LSTM | torch | 2 ms | 4 ms | {median} | {least} to {largest} | ≥ 1 |\n\n| other | table |\n|---|---|"
    )


@pytest.mark.parametrize(
    ("before", "now", "is_slower"),
    [
        (section(1.0, 1.1, 1.2), section(1.3, 1.4, 1.5), True),
        (section(1.0, 1.1, 1.2), section(0.7, 0.8, 0.9), False),
        (section(1.0, 1.1, 1.2), section(1.0, 1.4, 1.5), False),  # one turn was as quick as before
        (section(1.0, 1.1, 1.6), section(1.3, 1.4, 1.5), False),  # one turn was as slow before
        (speedups(1.0, 1.1, 1.2), speedups(0.7, 0.8, 0.9), True),
        (speedups(1.0, 1.1, 1.2), speedups(1.3, 1.4, 1.5), False),
        (section(1.0), speedups(0.1, 0.1, 0.1), False),  # other rows
        ("", section(2.0), False),
    ],
)
def test_slower_rows(before: str, now: str, is_slower: bool) -> None:
    assert bool(check.slower_rows(before, now)) == is_slower


def test_a_slower_row_says_what_and_by_how_much() -> None:
    (row,) = check.slower_rows(section(1.0, 1.1, 1.2), section(1.3, 1.4, 1.5))
    assert row == "resnet18, wall time: 1.40 (1.30 to 1.50), before 1.10 (1.00 to 1.20)"


def test_sections_are_found_by_their_titles() -> None:
    document = tables.document(tables.document("", section(1.0, title="One")), section(2.0, title="One, too"))
    sections = tables.sections(document)
    assert "1.00 to 1.00" in sections["One"]
    assert "2.00 to 2.00" in sections["One, too"]
    assert "2.00" not in sections["One"]
    assert "Two" not in sections
