"""The planted faults are what they claim to be, and the benchmark judges tools as it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.faults import table
from benchmarks.faults.__main__ import select
from benchmarks.faults.judge import innocent, judge, matches
from benchmarks.faults.outcomes import run
from benchmarks.faults.tools.finding import Finding
from fixtures.planted_faults import catalogue
from fixtures.planted_faults.cases import Case, Either
from fixtures.planted_faults.pairs import Pair
from fixtures.planted_faults.proving import problems

CASES = catalogue.cases()
KINDS = tuple(dict.fromkeys(case.kind for case in CASES))
EPS = {"kind": "attribute", "name": "eps", "reference": 1e-6, "candidate": 1e-5}


def test_there_are_cases_of_every_kind_and_each_has_its_own_name() -> None:
    assert KINDS == (
        "torch", "opaque", "two", "hidden", "port", "jax", "onnx", "files", "training", "generate", "ranks", "sound",
    )  # fmt: skip
    assert len({(case.kind, case.name) for case in CASES}) == len(CASES)
    assert sum(case.is_fault for case in CASES) >= 300


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "onnx"])  # it has the files of "files"
@pytest.mark.every(6)
def test_a_sample_of_the_cases_is_what_it_claims(kind: str) -> None:
    sample = select(CASES, kind, 1 if kind in ("files", "sound", "ranks", "jax") else 6, seed=1)
    assert [problem for case in sample for problem in problems(case)] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_case_is_what_it_claims(kind: str) -> None:
    assert [problem for case in select(CASES, kind, None, 0) for problem in problems(case)] == []


def _case(*expected: dict[str, Any], cells: tuple[str, ...] = ("a",)) -> Case:
    return Case("n/eps", "n", "torch", cells, "eps", expected, ("eps",), lambda: Pair(None, None))


def _cause(**fields: Any) -> SimpleNamespace:
    given = {"attribute": "eps", "reference_value": 1e-6, "candidate_value": 1e-5}
    return SimpleNamespace(**{"kind": "attribute", "summary": "", **given, **fields})


def test_a_cause_is_right_if_kind_name_and_values_are() -> None:
    assert matches(_cause(), EPS)
    assert not matches(_cause(attribute="momentum"), EPS)
    assert not matches(_cause(kind="weight"), EPS)
    assert not matches(_cause(candidate_value=1e-4), EPS)


def test_a_value_may_be_written_in_several_ways() -> None:
    axis = {**EPS, "name": "axis|dim", "reference": Either((-1, 3)), "candidate": Either((-2, 2))}
    for reference, candidate in ((-1, -2), (3, 2), (-1, 2)):
        assert matches(_cause(attribute="dim", reference_value=reference, candidate_value=candidate), axis)
    assert not matches(_cause(attribute="dim", reference_value=3, candidate_value=1), axis)
    pads = {
        **EPS,
        "reference": Either(([1, 1, 1, 1], ((1, 1), (1, 1)))),
        "candidate": Either(([0, 0, 2, 2], ((0, 2), (0, 2)))),
    }
    assert matches(_cause(reference_value=((1, 1), (1, 1)), candidate_value=((0, 2), (0, 2))), pads)
    assert not matches(_cause(reference_value=((1, 1), (1, 1)), candidate_value=((2, 0), (2, 0))), pads)


def test_another_cause_named_first_is_wrong() -> None:
    wrong_cause = _cause(attribute="momentum")
    assert judge(_case(EPS), Finding(True, frozenset("a"), {"a": [_cause(), wrong_cause]})).cause
    assert not judge(_case(EPS), Finding(True, frozenset("a"), {"a": [wrong_cause, _cause()]})).cause


def test_of_two_faults_both_must_be_named() -> None:
    words = {"kind": "structure", "words": ("residual|add",)}
    added = _cause(kind="structure", summary="Add is left out", attribute=None)
    two = _case(EPS, words, cells=("a", "b"))
    assert judge(two, Finding(True, frozenset("ab"), {"a": [_cause()], "b": [added]})).cause
    assert not judge(two, Finding(True, frozenset("ab"), {"a": [_cause()]})).cause
    assert not judge(two, Finding(True, frozenset("ab"), {"a": [_cause()], "b": [_cause(attribute="p"), added]})).cause
    same = _case(EPS, words)
    assert judge(same, Finding(True, frozenset("a"), {"a": [added, _cause()]})).cause


def test_exchanged_values_are_a_right_cause_of_the_wrong_side() -> None:
    exchanged = _cause(reference_value=1e-5, candidate_value=1e-6)
    verdict = judge(_case(EPS), Finding(True, frozenset("a"), {"a": [exchanged]}))
    assert (verdict.cause, verdict.side) == (True, False)


def test_a_place_is_right_if_nothing_else_is_accused() -> None:
    verdict = judge(_case(EPS), Finding(True, frozenset(["a", "b"])))
    assert (verdict.found, verdict.placed, verdict.innocent) == (True, False, 1)
    assert judge(_case(EPS), Finding(True, frozenset("a"), texts={"a": ["another EPS"]})).explained


def test_a_fault_is_the_reason_for_the_smallest_accused_cell_around_it_alone() -> None:
    assert innocent(["a", "b.c"], ["a", "b.c"]) == set()
    assert innocent(["a", "b"], ["a", "b.c"]) == set()
    assert innocent(["", "a"], ["a", "b.c"]) == set()
    assert innocent(["", "b", "b.c"], ["b.c"]) == {"", "b"}
    assert innocent(["b", "b.d", "bc"], ["b.c"]) == {"b.d", "bc"}
    assert innocent([""], []) == {""}
    assert judge(_case(EPS, cells=("b.c",)), Finding(True, frozenset(["b"]))).placed is False


def test_the_table_counts_and_has_80_columns() -> None:
    def says_so(pair: Pair) -> Finding | None:
        return Finding(True, frozenset(["norm"]))

    cases = [case for case in select(CASES, "vit/eps*", None, 0) if case.kind == "torch"]
    text = table.text([outcome.to_dict() for outcome in run(cases, {"cellbridge": says_so})])
    rows = [line.split() for line in text.splitlines()]
    assert ["torch", "2", "2", "1", "1", "0", "0", "0.0"] in rows
    assert max(map(len, text.splitlines())) <= 80
