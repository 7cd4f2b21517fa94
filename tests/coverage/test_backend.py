"""onnx's own backend tests: all pass except those that the gap list names with reasons."""

from __future__ import annotations

import fnmatch

import numpy as np
import onnx
import pytest

from tests.coverage import backend

GAPS = backend.gaps()
LEAST = 0.9  # the share that must pass


def stale(outcomes: list[backend.Outcome], gaps: dict[str, str]) -> list[str]:
    """Return the errors in the gap list."""
    wrong = [f"{o.name} fails: {o.problem}" for o in outcomes if o.problem and not backend.is_gap(o.name, gaps)]
    for pattern in gaps:
        matching = [o for o in outcomes if fnmatch.fnmatchcase(o.name, pattern)]
        wrong += [f"{o.name} passes, the gap {pattern!r} says it doesn't" for o in matching if not o.problem]
        wrong += [] if matching else [f"the gap {pattern!r} names no test"]
    return wrong


@pytest.fixture(scope="module")
def outcomes() -> list[backend.Outcome]:
    return [backend.run(case) for case in backend.cases().values()]


@pytest.mark.slow
def test_the_gap_list_is_exact(outcomes: list[backend.Outcome]) -> None:
    assert stale(outcomes, GAPS) == []


@pytest.mark.slow
def test_most_backend_tests_pass(outcomes: list[backend.Outcome]) -> None:
    assert len(outcomes) > 2000
    assert sum(not o.problem for o in outcomes) / len(outcomes) >= LEAST


def test_a_stale_gap_list_is_found() -> None:
    outcomes = [backend.Outcome("a", ""), backend.Outcome("b", "wrong"), backend.Outcome("c1", "wrong")]
    assert stale(outcomes, {"b": "reason", "c*": "reason"}) == []
    assert stale(outcomes, {"b": "reason"}) == ["c1 fails: wrong"]
    assert stale(outcomes, {"b": "reason", "c1": "reason", "a": "reason"}) == ["a passes, the gap 'a' says it doesn't"]
    assert stale(outcomes, {"b": "reason", "c1": "reason", "d": "reason"}) == ["the gap 'd' names no test"]


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
