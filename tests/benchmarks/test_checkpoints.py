"""`parity checkpoint` of a billion parameters stays in its bounds of time and memory, and grows with the tensors."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import checkpoints

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_billion_parameters_and_thousands_of_tensors() -> None:
    rows = checkpoints.measure(ROOT, ["1 billion"], 2_000)
    assert {row.quantity for row in rows if row.target is not None and max(row.ratios) > row.target} == set()
    assert min(row.ratios[0] for row in rows) > 0
