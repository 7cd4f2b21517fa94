"""Long sums: any usual order in float32 is within the bound, and half precision isn't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellbridge.parity.judging.rounding_bounds.estimates import Estimate, Units, bound_of
from cellbridge.parity.judging.rounding_bounds.sums import mean_over, product_bound, sum_over

Array = np.ndarray[Any, Any]
FLOAT32 = Units.of("float32")
RNG = np.random.default_rng(0)
SHAPE = (16, 3136)
TERMS: dict[str, Array] = {
    "of one sign": RNG.random(SHAPE),
    "of both signs": RNG.standard_normal(SHAPE),
    "first negative, then positive": np.linspace(-1, 1, SHAPE[1]) + 0.01 * RNG.standard_normal(SHAPE),
}
ORDERS: dict[str, Callable[[Array], Array]] = {
    "one after another": lambda x: np.cumsum(x, axis=1)[:, -1],
    "from the last": lambda x: np.cumsum(x[:, ::-1], axis=1)[:, -1],
    "in pairs": lambda x: x.sum(axis=1),
    "in blocks": lambda x: np.cumsum(np.cumsum(x.reshape(16, 49, 64), axis=1)[:, -1], axis=1)[:, -1],
}


def _exact(x: Array) -> Estimate:
    """Numbers that float32 holds."""
    return Estimate(x.astype(np.float32).astype(np.float64), np.zeros(x.shape))


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_sum_in_any_usual_order_is_within_the_bound(terms: Array, order: Callable[[Array], Array]) -> None:
    x = _exact(terms)
    total = sum_over(x, (1,), FLOAT32)
    off = np.abs(order(x.value.astype(np.float32)) - total.value[:, 0])
    assert (off <= bound_of(total)[:, 0]).all()


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_a_sum_in_half_precision_is_not(terms: Array) -> None:
    x = _exact(terms)
    total = sum_over(x, (1,), FLOAT32)
    off = np.abs(np.cumsum(x.value.astype(np.float16), axis=1)[:, -1] - total.value[:, 0])
    assert (off > 10 * bound_of(total)[:, 0]).any()


@pytest.mark.parametrize("terms", list(TERMS.values())[:2], ids=list(TERMS)[:2])
def test_terms_that_were_rounded_to_half_precision_are_not(terms: Array) -> None:
    x = _exact(terms)
    mean = mean_over(x, (1,), FLOAT32)
    off = np.abs(x.value.astype(np.float16).astype(np.float64).mean(axis=1) - mean.value[:, 0])
    assert (off > 2 * bound_of(mean)[:, 0]).any()


def test_a_bound_of_the_terms_is_passed_on() -> None:
    x = _exact(TERMS["of both signs"])
    rounded = Estimate(x.value, np.abs(x.value) * 2.0**-11)
    off = np.abs(x.value.astype(np.float16).astype(np.float64).sum(axis=1) - x.value.sum(axis=1))
    assert (off <= bound_of(sum_over(rounded, (1,), FLOAT32))[:, 0]).all()


@pytest.mark.parametrize("count", [64, 2048, 50_000])
def test_products_of_matrices(count: int) -> None:
    """float32 is within the bound, even one after another; operands in half precision aren't, with any number."""
    x, w = (_exact(RNG.standard_normal(shape)) for shape in ((4, count), (count, 8)))
    bound = product_bound(lambda a, b, _: a @ b, x, w, None, x.value @ w.value, FLOAT32)
    narrow = (x.value.astype(np.float32), w.value.astype(np.float32))
    for result in (narrow[0] @ narrow[1], np.cumsum(narrow[0][:, :, None] * narrow[1], axis=1)[:, -1]):
        assert (np.abs(result - x.value @ w.value) <= bound).all()
    half = x.value.astype(np.float16).astype(np.float64) @ w.value
    assert (np.abs(half - x.value @ w.value) > 10 * bound).any()
