from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cellbridge.runtime import ops
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ops import elementwise, error_function, rounding
from cellbridge.runtime.ops.registry import Op

Array = np.ndarray[Any, Any]

BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "remainder", "fmod", "floor_divide"]
WHOLE_OPS = ["add", "sub", "mul", "maximum", "minimum", "remainder", "fmod", "floor_divide"]
UNARY = [
    "exp",
    "expm1",
    "sigmoid",
    "tanh",
    "erf",
    "erfc",
    "sin",
    "cos",
    "asinh",
    "atan",
    "round",
    "trunc",
    "floor",
    "abs",
]


def elements(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, width=64)


def pair(low: float, high: float) -> st.SearchStrategy[tuple[Array, Array]]:
    """Two arrays that broadcast."""
    shapes = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4)
    # six decimals: where a quotient passes 2**53 or a divisor is subnormal, torch's vectorised fmod isn't exact, or NaN
    coarse = elements(low, high).map(lambda x: round(x, 6))
    return shapes.flatmap(
        lambda s: st.tuples(*(hnp.arrays(np.float64, shape, elements=coarse) for shape in s.input_shapes))
    )


def units_in_last_place(actual: Array, exact: Array) -> Array:
    return np.abs(actual.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(actual.dtype))


@pytest.mark.parametrize("name", BINARY)
@given(operands=pair(-8.0, 8.0))
@settings(max_examples=40, deadline=None)
@pytest.mark.every(2)
def test_binary_kernels_broadcast_as_torch(name: str, operands: tuple[Array, Array]) -> None:
    with np.errstate(all="ignore"):
        actual = ops.get(name)(*operands)
    expected = getattr(torch, name)(*map(torch.from_numpy, operands)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-15)


@pytest.mark.parametrize("name", WHOLE_OPS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
@pytest.mark.every(2)
def test_integers_divide_as_torch(name: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.int64, np.int32, np.int8]))
    divisors = st.integers(-9, 9) if name in ("add", "sub", "mul", "maximum", "minimum") else st.integers(1, 9)
    a = data.draw(hnp.arrays(dtype, (4,), elements=st.integers(-100, 100)))
    b = data.draw(hnp.arrays(dtype, (4,), elements=divisors)) * data.draw(st.sampled_from([1, -1]))
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b.astype(dtype))).numpy()
    np.testing.assert_array_equal(ops.get(name)(a, b.astype(dtype)), expected, strict=True)


@pytest.mark.parametrize("name", UNARY)
@given(x=hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3), elements=elements(-30.0, 30.0)))
@settings(max_examples=40, deadline=None)
@pytest.mark.every(2)
def test_unary_kernels_agree_with_torch(name: str, x: Array) -> None:
    expected = np.asarray(getattr(torch, name)(torch.from_numpy(x)).numpy())
    np.testing.assert_allclose(ops.get(name)(x), expected, rtol=2e-15, atol=1e-300)


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_integers_are_not_divided_by_zero(name: str) -> None:
    with pytest.raises(ZeroDivisionError, match="integers by zero"):
        ops.get(name)(np.array([1, 2]), np.array([1, 0]))


@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 4])
def test_integer_powers_are_those_of_torch(exponent: int) -> None:
    base = np.array([-3, -2, -1, 1, 2, 3])
    expected = torch.pow(torch.from_numpy(base), torch.tensor(exponent)).numpy()
    np.testing.assert_array_equal(elementwise.pow(base, np.array(exponent)), expected, strict=True)
    np.testing.assert_array_equal(elementwise.pow(base, np.full(6, exponent)), expected, strict=True)


def test_gradient_of_a_power_where_the_base_is_zero() -> None:
    base, exponent = np.array([0.0, 0.0, 2.0, 0.0]), np.array([2.0, 3.0, 0.0, 0.0])
    tensors = [torch.from_numpy(x).requires_grad_() for x in (base, exponent)]
    expected = torch.autograd.grad(torch.pow(*tensors).sum(), tensors)
    assert elementwise.pow.vjp_rule is not None
    with np.errstate(all="ignore"):
        actual = elementwise.pow.vjp_rule(np.ones(4), elementwise.pow(base, exponent), base, exponent)
    for actual_gradient, expected_gradient in zip(actual, expected, strict=True):
        np.testing.assert_allclose(actual_gradient, expected_gradient.numpy())


GRID = np.concatenate([[0.0], np.geomspace(1e-300, 1e-3, 500), np.linspace(0.001, 28.0, 20_001), [np.inf]])
GRID = np.concatenate([-GRID, GRID])


def test_float64_error_functions_are_accurate() -> None:
    """Within 4 units in the last place of torch's (whose own are good to 1 or 2), subnormal results aside."""
    x = torch.from_numpy(GRID)
    assert units_in_last_place(error_function.erf(GRID), torch.erf(x).numpy()).max() <= 4.0
    normal = GRID < 26.0
    exact = torch.special.erfcx(x).numpy()[normal]  # scaled: erfc itself is less accurate in torch
    with np.errstate(over="ignore"):
        scaled = error_function.erfc(GRID[normal]) * np.exp(GRID[normal].astype(np.longdouble) ** 2)
    positive = GRID[normal] > 0
    assert np.abs(scaled[positive] / exact[positive] - 1.0).max() < 2e-15


def test_float32_error_functions_are_accurate() -> None:
    x = GRID.astype(np.float32)
    x = x[(x == 0.0) | (np.abs(x) > 1e-37)]
    exact = torch.erf(torch.from_numpy(x.astype(np.float64))).numpy()
    assert error_function.erf(x).dtype == np.float32
    assert units_in_last_place(error_function.erf(x), exact).max() <= 1.5
    exact = torch.special.erfc(torch.from_numpy(x.astype(np.float64))).numpy()
    normal = exact > 1e-37
    assert units_in_last_place(error_function.erfc(x)[normal], exact[normal]).max() <= 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_error_functions_keep_nan_and_shape(dtype: Any) -> None:
    x = np.full((2, 0, 3), 0.5, dtype)
    assert error_function.erf(x).shape == error_function.erfc(x).shape == (2, 0, 3)
    x = np.array([[np.nan, 0.5]], dtype)
    for function in (error_function.erf, error_function.erfc):
        np.testing.assert_array_equal(np.isnan(function(x)), [[True, False]])


def test_float32_erf_of_several_blocks() -> None:
    x = np.random.default_rng(0).normal(size=(3, error_function.BLOCK)).astype(np.float32)[:, ::2]
    in_one = error_function._erf_float32(np.ascontiguousarray(x))
    np.testing.assert_array_equal(error_function.erf(x), in_one)


HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_gradient_is_rounded_once(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    g, x = (rng.normal(size=50).astype(dtype) for _ in range(2))
    rule = ops.get("tanh").vjp_rule
    assert rule is not None
    y = ops.get("tanh")(x)
    wide = [array.astype(np.float32) for array in (g, y, x)]
    np.testing.assert_array_equal(rule(g, y, x), rule(*wide).astype(dtype))


@pytest.mark.parametrize("target", [np.int64, np.int32, np.uint8, np.bool_, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("source", [np.float64, np.float32, np.float16, np.int64, np.bool_])
def test_casts_are_those_of_torch(source: Any, target: Any) -> None:
    x = np.array([0.0, 0.4, 1.0, 1.6, 2.5, 100.9]).astype(source)
    if source != np.bool_ and target != np.uint8:
        x = np.concatenate([x, -x])
    expected = torch.from_numpy(x).to(torch.from_numpy(np.zeros((), target)).dtype).numpy()
    np.testing.assert_array_equal(elementwise.cast(x, dtype=np.dtype(target)), expected, strict=True)


@pytest.mark.parametrize(("dtype", "is_differentiated"), [(np.float64, True), (np.int64, True), (np.int64, False)])
def test_gradient_of_a_cast_has_the_dtype_of_what_is_differentiated(dtype: Any, is_differentiated: bool) -> None:
    x, g = np.ones(2, dtype), np.ones(2, np.float16)
    (gradient,) = elementwise.cast.apply_vjp([g], [g], [x], {"dtype": np.dtype(np.float16)}, [is_differentiated])
    assert (gradient.dtype == dtype) if is_differentiated else gradient is None


def test_steps_send_nothing_back() -> None:
    for op in (rounding.floor, rounding.ceil, rounding.round, rounding.trunc, elementwise.sign):
        assert op.vjp_rule is not None
        assert op.vjp_rule(np.ones(2), np.ones(2), np.ones(2)) is None


@pytest.mark.parametrize(
    ("op", "operands", "message"),
    [
        (elementwise.div, (np.array([1, 2]), np.array([2, 2])), r"div\(a int64\[2\], b int64\[2\]\): needed floating"),
        (elementwise.add, (np.ones(2), np.ones(2, np.float32)), "one dtype, given float64, float32; cast first"),
        (elementwise.add, (np.ones(2), np.ones(3)), r"\(2,\), \(3,\) don't broadcast"),
        (elementwise.sub, (np.array([True]), np.array([True])), "needed numbers, given bool"),
        (elementwise.exp, (np.array([1]),), r"exp\(x int64\[1\]\): needed floating-point"),
        (elementwise.where, (np.ones(2), np.ones(2), np.ones(2)), r"bool condition, given float64\[2\]"),
    ],
)
def test_operands_that_do_not_fit(op: Op, operands: tuple[Array, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        op(*operands)


def test_fractional_bounds_do_not_fit_integers() -> None:
    with pytest.raises(ShapeError, match=r"integer bounds for int64, given minimum 0\.5"):
        elementwise.clamp(np.array([1, 2]), minimum=0.5)
