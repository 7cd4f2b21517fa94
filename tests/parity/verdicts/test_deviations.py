"""Deviations between arrays, computed block by block, equal those of whole arrays and need little memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellbridge.parity.verdicts import deviations
from cellbridge.parity.verdicts.deviations import differing, error, excess, exponents, reference_error, size

SPECIAL = [0.0, -0.0, 1.0, -3.5, 2.0**40, 1e-30, np.inf, -np.inf, np.nan]


@pytest.fixture(params=[1, 3, 2**20], autouse=True)
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(deviations, "BLOCK", request.param)


def _pairs() -> list[tuple[Any, Any]]:
    """Arrays of all kinds of numbers, that differ here and there."""
    rng = np.random.default_rng(0)
    pairs = []
    for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        for shape in ((), (1,), (7,), (2, 3, 4)):
            truth = rng.choice(SPECIAL, shape)
            candidate = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), truth)
            with np.errstate(over="ignore"):
                pairs.append((np.asarray(candidate).astype(dtype), np.asarray(truth)))
    return pairs


@pytest.mark.parametrize("pair", range(16))
def test_the_largest_error_is_where_it_is_said_to_be(pair: int) -> None:
    candidate, truth = _pairs()[pair]
    largest, index = error(candidate, truth)
    a, b = candidate.astype(np.float64), truth
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isfinite(apart), apart, np.inf))
    assert largest == apart.max()
    assert index is not None
    assert apart[index] == largest
    assert index == tuple(np.argwhere(apart == largest)[0].tolist())


def test_transposed_and_expanded_arrays() -> None:
    a = np.arange(12.0).reshape(3, 4).T
    assert error(a, a.copy()) == (0.0, (0, 0))
    b = a.copy()
    b[2, 1] += 5
    assert error(b, a) == (5.0, (2, 1))
    assert error(np.broadcast_to(np.float32(1), (2, 3)), np.ones((2, 3))) == (0.0, (0, 0))


def test_below_a_limit_only_small_elements_count() -> None:
    truth, candidate = np.array([1.0, 1e9, -2.0]), np.array([1.25, 0.0, -2.0])
    assert error(candidate, truth, below=10.0) == (0.25, (0,))
    assert error(candidate, truth)[1] == (1,)
    assert size(truth, below=10.0) == 2.0
    assert size(truth) == 1e9
    assert size(np.array([np.nan, -3.0, np.inf])) == 3.0
    assert size(np.array([np.nan])) == size(np.array([])) == size(None) == 0.0


def test_an_overflow_of_the_reference_excuses_that_of_the_candidate() -> None:
    truth = np.array([1e30, 1.0, 2.0])
    reference, wrong = np.array([np.inf, 1.0, 2.0]), np.array([np.inf, np.inf, 2.0])
    assert reference_error(reference, truth) == 0.0
    assert error(reference, truth, reference) == (0.0, (0,))
    assert error(wrong, truth, reference) == (np.inf, (1,))
    assert error(reference, truth)[0] == np.inf


def test_tolerances_of_the_user() -> None:
    truth = np.array([1.0, 100.0, np.inf, np.nan])
    assert excess(truth, truth, 0.0, 0.0)[0] == -np.inf
    assert excess(np.array([1.0, 101.0, np.inf, np.nan]), truth, 0.25, 0.0) == (0.75, (1,))
    assert excess(np.array([1.0, 101.0, np.inf, np.nan]), truth, 0.0, 0.01)[0] == pytest.approx(0.0)
    assert excess(np.array([1.0, 100.0, 1.0, np.nan]), truth, 1.0, 1.0) == (np.inf, (2,))
    assert excess(np.zeros(0), np.zeros(0), 1.0, 1.0) == (-np.inf, None)


def test_integers_are_counted_exactly() -> None:
    a = np.array([[2**62, 1], [2, 3]])
    b = a.copy()
    assert differing(a, b) == (0, None)
    b[0, 0] += 1  # which float64 doesn't tell apart
    b[1, 1] = 9
    assert differing(b, a) == (2, (0, 0))


def test_exponents() -> None:
    assert exponents(np.array([0.0, 1.0, 1.5, -2.0, 1024.0, np.inf, np.nan])) == [1, 2, 11]


@pytest.mark.parametrize("block", [2**20], indirect=True)
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.every(2)
def test_large_arrays_take_little_memory_beside_them(dtype: Any) -> None:
    a, b = np.zeros(2**24, dtype), np.zeros(2**24, dtype)
    tracemalloc.start()
    error(a, b)
    differing(a, b)
    excess(a, b, 0.0, 0.0)
    exponents(a)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**26, "half of one of the arrays"
