from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cellbridge.converter.onnx_out.export import to_onnx
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ops import random
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import one_node_program

Array = np.ndarray[Any, Any]

FLOATS = [np.dtype(d) for d in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)]
SHAPE = (200, 50)
SIGMAS = 5.0  # of the mean of 10,000 draws: one false alarm in two million


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(0)


def in_onnx_runtime(op: str, **attributes: Any) -> Array:
    program = one_node_program(OpCase(op, (), attributes), np.float32)
    (result,) = run_model(to_onnx(program, opset=20), {}).values()
    return result


def check_bernoulli(draws: Array, probability: float) -> None:
    assert set(np.unique(draws)) <= {0, 1}
    deviation = np.sqrt(probability * (1 - probability) / draws.size)
    assert abs(draws.astype(np.float64).mean() - probability) < SIGMAS * deviation


def check_uniform(draws: Array, low: float, high: float) -> None:
    wide = draws.astype(np.float64)
    assert low <= wide.min() < wide.max() < high
    step = (high - low) * float(ml_dtypes.finfo(draws.dtype).eps)  # how much of the interval rounding moves
    assert abs(wide.mean() - (low + high) / 2) < SIGMAS * (high - low) / np.sqrt(12 * draws.size) + step
    assert abs(wide.std() - (high - low) / np.sqrt(12)) < 0.03 * (high - low)


def check_normal(draws: Array, mean: float, deviation: float) -> None:
    wide = draws.astype(np.float64)
    assert abs(wide.mean() - mean) < SIGMAS * deviation / np.sqrt(draws.size) + 0.01 * deviation
    assert abs(wide.std() / deviation - 1) < 0.05


def check_exponential(draws: Array, rate: float) -> None:
    wide = draws.astype(np.float64)
    assert wide.min() > 0
    assert abs(wide.mean() * rate - 1) < SIGMAS / np.sqrt(draws.size)
    assert abs(wide.std() * rate - 1) < 0.1


def check_integers(draws: Array, low: int, high: int) -> None:
    values, counts = np.unique(draws, return_counts=True)
    assert values.tolist() == list(range(low, high))
    share = 1 / (high - low)
    assert abs(counts / draws.size - share).max() < SIGMAS * np.sqrt(share * (1 - share) / draws.size)


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int64), np.dtype(bool)], ids=str)
def test_bernoulli(dtype: np.dtype[Any]) -> None:
    draws = random.bernoulli(shape=SHAPE, probability=0.3, dtype=dtype)
    assert draws.dtype == dtype
    assert draws.shape == SHAPE
    check_bernoulli(draws, 0.3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_never_reaches_its_upper_end(dtype: np.dtype[Any]) -> None:
    draws = random.uniform(shape=SHAPE, dtype=dtype)
    assert draws.dtype == dtype
    check_uniform(draws, 0.0, 1.0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal(dtype: np.dtype[Any]) -> None:
    draws = random.normal(shape=SHAPE, mean=2.0, deviation=0.5, dtype=dtype)
    assert draws.dtype == dtype
    check_normal(draws, 2.0, 0.5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponential_is_never_zero(dtype: np.dtype[Any]) -> None:
    draws = random.exponential(shape=SHAPE, rate=4.0, dtype=dtype)
    assert draws.dtype == dtype
    check_exponential(draws, 4.0)


@pytest.mark.parametrize("dtype", [np.dtype(np.int64), np.dtype(np.int32), *FLOATS], ids=str)
def test_integers(dtype: np.dtype[Any]) -> None:
    draws = random.integers(shape=SHAPE, low=-1, high=4, dtype=dtype)
    assert draws.dtype == dtype
    check_integers(draws, -1, 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bernoulli_with_a_probability_each(dtype: np.dtype[Any]) -> None:
    draws = random.bernoulli_each(np.repeat(np.array([0.1, 0.6], dtype), 5000))
    assert draws.dtype == dtype
    check_bernoulli(draws[:5000], 0.1)
    check_bernoulli(draws[5000:], 0.6)


def test_in_onnx_runtime() -> None:
    float32 = np.dtype(np.float32)
    check_bernoulli(in_onnx_runtime("bernoulli", shape=SHAPE, probability=0.3, dtype=float32), 0.3)
    check_uniform(in_onnx_runtime("uniform", shape=SHAPE, low=-1.0, high=3.0, dtype=float32), -1.0, 3.0)
    check_normal(in_onnx_runtime("normal", shape=SHAPE, mean=2.0, deviation=0.5, dtype=float32), 2.0, 0.5)
    check_exponential(in_onnx_runtime("exponential", shape=SHAPE, rate=4.0, dtype=float32), 4.0)
    check_integers(in_onnx_runtime("integers", shape=SHAPE, low=-1, high=4, dtype=np.dtype(np.int64)), -1, 4)
    probabilities = np.full(SHAPE, 0.3, float32)
    program = one_node_program(OpCase("bernoulli_each", (probabilities,)), float32)
    (draws,) = run_model(to_onnx(program, opset=20), {"x0": probabilities}).values()
    check_bernoulli(draws, 0.3)


def check_independent(draws: Array, probability: float) -> None:
    """Of a matrix: neighbours, corners of triangles and rectangles, sums of rows and of columns, and all together."""
    x = (draws.astype(np.float64) - probability) / np.sqrt(probability * (1 - probability))
    for down, right in ((1, 1), (1, 7), (5, 2)):
        a, b, c, d = x[down:, right:], x[:-down, :-right], x[down:, :-right], x[:-down, right:]
        for product in (a * b, a * c, a * d, a * b * c, a * b * c * d):
            assert abs(product.mean()) * np.sqrt(product.size) < SIGMAS
    rows, columns = x.shape
    for axis in (0, 1):
        sums = x.sum(axis) / np.sqrt(x.shape[axis])
        assert abs(sums.var() - 1) * np.sqrt(sums.size / 2) < SIGMAS
    assert abs(np.linalg.norm(x, 2) / (np.sqrt(rows) + np.sqrt(columns)) - 1) < 0.05


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(600, 400), (10, 60, 400), (600, 20, 20), (600, 1, 400, 1)])
def test_masks_in_onnx_runtime_are_independent(shape: tuple[int, ...], probability: float) -> None:
    draws = in_onnx_runtime("bernoulli", shape=shape, probability=probability, dtype=np.dtype(np.float32))
    assert draws.shape == shape
    check_bernoulli(draws, probability)
    check_independent(draws.reshape(600, 400), probability)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (1, 100), (0, 100), (100, 0)])
@pytest.mark.parametrize("probability", [0.0, 1.0, 2.0**-40, 1 - 2.0**-40])
def test_small_masks_in_onnx_runtime(shape: tuple[int, ...], probability: float) -> None:
    draws = in_onnx_runtime("bernoulli", shape=shape, probability=probability, dtype=np.dtype(np.int64))
    np.testing.assert_array_equal(draws, np.full(shape, round(probability)))


def test_that_draws_depend_on_each_other_is_noticed() -> None:
    rows, columns = (random.bernoulli(shape=(n,), probability=0.5, dtype=np.dtype(bool)) for n in (600, 400))
    with pytest.raises(AssertionError):  # each is drawn evenly, any two and any three of them are independent
        check_independent(rows[:, None] ^ columns, 0.5)


@pytest.mark.parametrize(
    ("check", "shifted"),
    [
        (
            lambda x: check_bernoulli(x, 0.3),
            lambda: random.bernoulli(shape=SHAPE, probability=0.35, dtype=np.dtype("f4")),
        ),
        (lambda x: check_uniform(x, 0.0, 1.0), lambda: random.uniform(shape=SHAPE, high=1.05, dtype=np.dtype("f4"))),
        (
            lambda x: check_exponential(x, 1.0),
            lambda: random.exponential(shape=SHAPE, rate=1.1, dtype=np.dtype("f4")),
        ),
        (lambda x: check_integers(x, 0, 4), lambda: random.integers(shape=SHAPE, low=0, high=5, dtype=np.dtype("i8"))),
        (lambda x: check_normal(x, 0.0, 1.0), lambda: random.normal(shape=SHAPE, mean=0.1, dtype=np.dtype("f4"))),
    ],
)
def test_the_checks_notice_another_distribution(check: Any, shifted: Any) -> None:
    with pytest.raises(AssertionError):
        check(shifted())


def test_draws_differ_and_a_seed_repeats_them() -> None:
    dtype = np.dtype(np.float32)
    first, second = (random.normal(shape=(4,), dtype=dtype) for _ in range(2))
    random.seed(0)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(random.normal(shape=(4,), dtype=dtype), first)


def test_what_cannot_be_drawn() -> None:
    float32 = np.dtype(np.float32)
    with pytest.raises(ShapeError, match=r"probability between 0 and 1, given 1\.5"):
        random.bernoulli(shape=(2,), probability=1.5, dtype=float32)
    with pytest.raises(ShapeError, match="low <= high"):
        random.uniform(shape=(2,), low=1.0, high=0.0, dtype=float32)
    with pytest.raises(ShapeError, match="low < high, given 3 and 3"):
        random.integers(shape=(2,), low=3, high=3, dtype=float32)
    with pytest.raises(ShapeError, match="rate above 0"):
        random.exponential(shape=(2,), rate=0.0, dtype=float32)
    with pytest.raises(ShapeError, match="floating-point probabilities"):
        random.bernoulli_each(np.array([0, 1]))
    with pytest.raises(ShapeError, match="floating-point dtype, given int64"):
        random.normal(shape=(2,), dtype=np.dtype(np.int64))
