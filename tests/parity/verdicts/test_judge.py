"""The verdict on one tensor: pass or fail, with index and error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellbridge.parity.results.comparison import FAIL, PASS
from cellbridge.parity.verdicts.deviations import error, reference_error, size
from cellbridge.parity.verdicts.judge import ROUNDING_FACTOR, Tolerance, epsilon, judge

TRUTH = np.linspace(-1.0, 1.0, 9)
UNIT = epsilon("float32")
FLOAT32 = Tolerance("float32")


def _meaning(candidate: Any, truth: Any = TRUTH, noise: float = 0.0, tolerance: Tolerance = FLOAT32) -> dict[str, Any]:
    candidate, truth = np.asarray(candidate), np.asarray(truth)
    return judge("meaning", candidate, truth, truth, noise, tolerance)


def _rounding(candidate: Any, noise: float = 0.0, tolerance: Tolerance = FLOAT32) -> dict[str, Any]:
    return judge("rounding", np.asarray(candidate), TRUTH, TRUTH.astype(np.float32), noise, tolerance)


@pytest.mark.parametrize(("relative", "status"), [(0.0, PASS), (1e-15, PASS), (1e-8, FAIL), (1e-3, FAIL)])
def test_meaning_allows_double_rounding_and_no_more(relative: float, status: str) -> None:
    assert _meaning(TRUTH * (1 + relative))["status"] == status


def test_meaning_is_relative_to_the_size_of_the_tensor() -> None:
    for scale in (1e-30, 1e-3, 1e3, 1e30):
        assert _meaning(scale * TRUTH * (1 + 1e-15), scale * TRUTH)["status"] == PASS
        assert _meaning(scale * TRUTH * (1 + 1e-8), scale * TRUTH)["status"] == FAIL


def test_meaning_of_a_tensor_that_is_zero_but_for_rounding() -> None:
    """The gradient of a bias before a norm, say: 0 in theory, cancelled digits in practice."""
    assert _meaning([1e-17], [0.0], noise=1e-8)["status"] == PASS
    assert _meaning([1e-12], [0.0], noise=1e-8)["status"] == FAIL
    assert _meaning([1e-12], [0.0])["status"] == FAIL


@pytest.mark.parametrize("factor", [0.5, 0.99])
def test_rounding_within_the_bar_passes(factor: float) -> None:
    bar = ROUNDING_FACTOR * 3 * UNIT
    assert _rounding(TRUTH + factor * bar, noise=3 * UNIT)["status"] == PASS


def test_rounding_beyond_the_bar_fails_where_it_is_worst() -> None:
    candidate = TRUTH.copy()
    candidate[2] += 31 * UNIT
    result = _rounding(candidate, noise=3 * UNIT)
    assert (result["status"], result["index"]) == (FAIL, (2,))
    assert result["ratio"] == pytest.approx(31 / 3)
    assert (result["candidate_value"], result["truth"]) == (candidate[2], TRUTH[2])


def test_an_exact_reference_leaves_room_for_a_unit_in_the_last_place() -> None:
    assert _rounding(TRUTH.astype(np.float32), noise=0.0)["status"] == PASS
    assert _rounding(TRUTH * (1 + 20 * UNIT), noise=0.0)["status"] == FAIL


def test_shape_and_kind_of_dtype_must_agree() -> None:
    assert "shape [3, 3], needed [9]" in _meaning(TRUTH.reshape(3, 3))["reason"]
    assert "dtype int64" in _meaning(np.zeros(9, np.int64))["reason"]


@pytest.mark.parametrize("check", ["meaning", "rounding"])
def test_integers_are_compared_exactly(check: str) -> None:
    truth = np.arange(6).reshape(2, 3)
    candidate = truth.copy()
    candidate[1, 0] += 1
    assert judge(check, truth, truth, truth, 0.0, FLOAT32)["status"] == PASS
    result = judge(check, candidate, truth, truth, 0.0, FLOAT32)
    assert (result["status"], result["index"]) == (FAIL, (1, 0))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_must_be_so_on_both_sides(special: float) -> None:
    with_it = np.array([1.0, special])
    assert error(with_it, with_it)[0] == 0.0
    assert error(np.array([1.0, 2.0]), with_it) == (np.inf, (1,))
    assert error(with_it, np.array([1.0, 2.0])) == (np.inf, (1,))
    assert error(np.array([1.0, -np.inf]), np.array([1.0, np.inf]))[0] == np.inf
    assert _meaning(with_it, with_it)["status"] == PASS
    assert _meaning(with_it, np.array([1.0, 2.0]))["status"] == FAIL


def test_empty_tensors() -> None:
    assert _meaning(np.zeros((0, 3)), np.zeros((0, 3)))["status"] == PASS
    assert size(np.zeros(0)) == 0.0


@pytest.mark.parametrize(
    ("rtol", "atol", "status"), [(0.0, 2e-3, PASS), (3e-3, 0.0, FAIL), (1e-3, 1e-3, PASS), (0.0, 0.0, FAIL)]
)
def test_own_tolerances_replace_the_bar(rtol: float, atol: float, status: str) -> None:
    candidate = TRUTH + 1e-3  # at TRUTH's zero no rtol helps
    fields = _rounding(candidate, tolerance=Tolerance("float32", rtol, atol))
    assert fields["status"] == status
    assert fields["allowed"] == 1.0  # the tolerance is the bar
    if status == PASS:
        assert fields["bar"] == atol + rtol * abs(fields["reference_value"])


SCORES = np.array([0.3, -1.7, -1e9, 2.5, -1e9, 0.0])


@pytest.mark.parametrize("check", ["meaning", "rounding"])
@pytest.mark.parametrize(("relative", "status"), [(1e-14, PASS), (0.003, FAIL)])
def test_what_large_numbers_stand_apart_from_is_judged_by_itself(check: str, relative: float, status: str) -> None:
    candidate = np.where(SCORES > -1e8, SCORES * (1 + relative), SCORES)
    reference = SCORES.astype(np.float32)
    noise = reference_error(reference, SCORES)
    result = judge(check, candidate, SCORES, reference, noise, FLOAT32)
    assert result["status"] == status
    if status == FAIL:
        assert result["index"] == (3,)
        assert result["bar"] < 1e-3


@pytest.mark.parametrize(("place", "added", "status"), [(2, 0.75, PASS), (2, -100.0, FAIL), (3, 1e-7, FAIL)])
def test_masked_scores_need_the_digits_of_the_working_dtype_alone(place: int, added: float, status: str) -> None:
    candidate = SCORES.copy()
    candidate[place] += added
    assert judge("meaning", candidate, SCORES, SCORES.astype(np.float32), 1e-7, FLOAT32)["status"] == status
    assert judge("meaning", -candidate, -SCORES, -SCORES.astype(np.float32), 1e-7, FLOAT32)["status"] == FAIL


@pytest.mark.parametrize("truth", [[1e9, 1e-9, -2e-9], [1.0, 1e-20, 3e-20]])
def test_what_the_reference_has_no_digits_of_or_is_below_the_rounding_of_ordinary_numbers_passes(truth: Any) -> None:
    truth = np.array(truth)
    reference = truth + np.array([0.0, 1e-9, 1e-9])
    candidate = truth + np.array([0.0, -3e-9, 2e-9])
    assert judge("rounding", candidate, truth, reference, 2e-9, FLOAT32)["status"] == PASS


@pytest.mark.parametrize(
    ("value", "status"), [(np.inf, PASS), (np.nan, PASS), (1e39, PASS), (123.0, FAIL), (-1e39, FAIL)]
)
def test_where_the_reference_overflows_the_candidate_may(value: float, status: str) -> None:
    truth = np.array([1.0, 1e39, 2.0])
    reference = np.array([1.0, np.inf, 2.0], np.float32)
    assert reference_error(reference, truth) == 0.0
    candidate = np.array([1.0, value, 2.0])
    result = judge("rounding", candidate, truth, reference, reference_error(reference, truth), FLOAT32)
    assert result["status"] == status
    candidate[2] = np.inf
    assert judge("rounding", candidate, truth, reference, 0.0, FLOAT32)["status"] == FAIL


def test_an_element_within_the_rounding_of_its_own_computation_passes() -> None:
    truth = np.array([1.0, 2.0])
    candidate = truth + np.array([1e-4, 0.0])
    arguments = (truth, truth.astype(np.float32), 1e-7, Tolerance("float32"))
    for bound, status in ((None, FAIL), ([0.9e-4, 1.0], FAIL), ([1.1e-4, 0.0], PASS)):
        fields = judge("rounding", candidate, *arguments, bound=None if bound is None else np.array(bound))
        assert fields["status"] == status
        assert fields["index"] == (0,)
        assert (fields["error"] <= fields["bar"]) == (status == PASS)


def test_an_element_beyond_it_fails_where_it_is_worst_and_so_does_one_that_is_not_finite() -> None:
    truth = np.array([1.0, 2.0, 3.0])
    arguments = (truth, truth.astype(np.float32), 1e-7, Tolerance("float32"))
    bound = np.array([1.0, 1e-6, np.inf])
    fields = judge("rounding", truth + np.array([0.5, 1e-4, 0.0]), *arguments, bound=bound)
    assert (fields["status"], fields["index"]) == (FAIL, (1,))
    fields = judge("rounding", np.array([1.0, 2.0, np.nan]), *arguments, bound=np.ones(3))
    assert (fields["status"], fields["index"]) == (FAIL, (2,))


def test_the_computation_counts_for_elements_that_large_ones_stand_apart_from() -> None:
    truth = np.array([1e9, 1.0])
    candidate = truth + np.array([0.0, 1e-3])
    arguments = (truth, truth.astype(np.float32), 1e-7, Tolerance("float32"))
    assert judge("rounding", candidate, *arguments)["status"] == FAIL
    assert judge("rounding", candidate, *arguments, bound=np.array([0.0, 2e-3]))["status"] == PASS
