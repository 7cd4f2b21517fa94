"""onnx's own backend tests: all pass except those that the gap list names with reasons."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.coverage import backend
from tests.coverage.sweeping import SWEEPS, failures, sweep

GAPS = backend.gaps()
LEAST = 0.9  # the share that must pass


@pytest.mark.slow
def test_the_gap_list_is_exact(tmp_path: Path) -> None:
    assert failures(sweep([str(SWEEPS / "backend.py")], tmp_path / "backend.db")) == []


@pytest.mark.slow
def test_the_gaps_name_tests_and_most_pass() -> None:
    names = list(backend.cases())
    assert [pattern for pattern in GAPS if not fnmatch.filter(names, pattern)] == []
    assert len(names) > 2000
    assert sum(not backend.is_gap(name, GAPS) for name in names) / len(names) >= LEAST


def test_a_stale_gap_list_is_found() -> None:
    outcomes = [backend.Outcome("a", ""), backend.Outcome("b", "wrong"), backend.Outcome("c1", "wrong")]
    assert backend.disagreements(outcomes, {"b": "reason", "c*": "reason"}) == []
    assert backend.disagreements(outcomes, {"b": "reason"}) == ["c1 fails: wrong"]
    known = {"b": "reason", "c1": "reason", "a": "reason"}
    assert backend.disagreements(outcomes, known) == ["a passes, the gap 'a' says it doesn't"]


class Case:
    """A backend test: y = -x."""

    name, rtol, atol, model_dir = "negative", 1e-3, 1e-7, None
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Neg(x) }'
    )

    def __init__(self, expected: object) -> None:
        self.data_sets = [([np.array([1, 2, 3], np.float32)], [expected])]


def test_the_runner_tells_right_from_wrong() -> None:
    right = np.array([-1, -2, -3], np.float32)
    assert backend.run(Case(right)).problem == ""
    assert backend.run(Case(right * 1.01)).problem == "the values differ"
    assert "float64" in backend.run(Case(right.astype(np.float64))).problem
    assert "[1, 3]" in backend.run(Case(right[None])).problem
