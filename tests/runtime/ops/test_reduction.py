"""Properties of reductions, of order along an axis and of cumulative ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.types import BFLOAT16
from cellbridge.runtime.ops import products, reduction, scanning, sorting
from cellbridge.runtime.ops.summation import pairwise_sum

Array = np.ndarray[Any, Any]

small_arrays = hnp.arrays(
    np.float64, hnp.array_shapes(max_dims=4, max_side=5), elements=st.sampled_from([-2.0, -0.5, 0.0, 1.0, 1.5, 3.0])
)


@st.composite
def arrays_and_axes(draw: st.DrawFn) -> tuple[Array, tuple[int, ...]]:
    """An array in any memory layout, and some of its axes."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=70).filter(lambda shape: np.prod(shape) <= 20_000))
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape).astype(np.float32)
    x = x.transpose(draw(st.permutations(range(x.ndim))))
    x = x[tuple(slice(None, None, draw(st.sampled_from([1, -1, 2]))) for _ in range(x.ndim))]
    axes = draw(st.lists(st.integers(0, x.ndim - 1), unique=True))
    return x, tuple(sorted(axes))


@settings(deadline=None)
@given(arrays_and_axes(), st.booleans())
def test_sum_is_right_in_any_memory_layout(case: tuple[Array, tuple[int, ...]], keepdims: bool) -> None:
    x, axes = case
    expected = x.astype(np.float64).sum(axis=axes, keepdims=keepdims)
    actual = pairwise_sum(x, axes, keepdims)
    assert (actual.dtype, actual.shape) == (np.float32, expected.shape)
    bound = 16 * np.finfo(np.float32).eps * np.abs(x).sum(axis=axes, keepdims=keepdims, dtype=np.float64)
    assert (np.abs(actual - expected) <= bound).all()


def root_mean_square_error(summed: Array, x: Array) -> float:
    return float(np.sqrt(np.mean((summed - x.astype(np.float64).sum(axis=0)) ** 2)))


@pytest.mark.parametrize("shape", [(4096, 64), (20_000, 3), (1000, 8, 7), (37 * 97, 16)])
def test_float32_sums_over_the_first_axis_are_as_accurate_as_torch(shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) + 1).astype(np.float32)
    torch_error = root_mean_square_error(torch.from_numpy(x).sum(0).numpy(), x)
    assert root_mean_square_error(reduction.reduce_sum(x, axes=(0,)), x) <= 2 * torch_error
    assert root_mean_square_error(np.add.reduce(x, axis=0), x) > 2 * torch_error, "the plain sum must not pass"


def test_empty_sums_and_extrema() -> None:
    x = np.zeros((0, 3), np.float32)
    np.testing.assert_array_equal(reduction.reduce_sum(x, axes=(0,)), np.zeros(3, np.float32))
    with np.errstate(invalid="ignore"):
        assert np.isnan(reduction.reduce_mean(x))
    with pytest.raises(ShapeError, match="no element along axes"):
        reduction.reduce_max(x, axes=(0,))


@settings(deadline=None)
@given(small_arrays, st.data())
def test_gradient_of_a_product_is_right_at_zeros(x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    tensor = torch.from_numpy(x.copy()).requires_grad_()
    tensor.prod(axis).sum().backward()
    y = products.reduce_prod(x, axes=(axis,))
    g = products.reduce_prod.vjp_rule(np.ones(y.shape), y, x, axes=(axis,), keepdims=False)  # type: ignore[misc]
    np.testing.assert_allclose(g, tensor.grad, rtol=1e-12)


@settings(deadline=None)
@given(small_arrays, st.data())
def test_gradient_of_a_cumulative_product_is_right_at_zeros(x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    weights = np.random.default_rng(0).standard_normal(x.shape)
    tensor = torch.from_numpy(x.copy()).requires_grad_()
    (tensor.cumprod(axis) * torch.from_numpy(weights)).sum().backward()
    g = scanning.cumprod.vjp_rule(weights, scanning.cumprod(x, axis=axis), x, axis=axis)  # type: ignore[misc]
    np.testing.assert_allclose(g, tensor.grad, rtol=1e-10, atol=1e-10)


@settings(deadline=None)
@given(small_arrays, st.data(), st.booleans())
def test_order_is_that_of_torch_where_elements_are_equal(x: Array, data: st.DataObject, descending: bool) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    expected = torch.from_numpy(x).sort(dim=axis, stable=True, descending=descending)
    for actual, expected_tensor in zip(sorting.sort(x, axis=axis, descending=descending), expected, strict=True):
        np.testing.assert_array_equal(actual, expected_tensor.numpy(), strict=True)
    k = data.draw(st.integers(0, x.shape[axis]))
    values, indices = sorting.topk(x, k=k, axis=axis, largest=descending)
    np.testing.assert_array_equal(values, torch.from_numpy(x).topk(k, axis, largest=descending).values.numpy())
    np.testing.assert_array_equal(np.take_along_axis(x, indices, axis), values)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        (lambda x: reduction.reduce_max(x), lambda x: x.amax()),
        (lambda x: reduction.logsumexp(x), lambda x: x.logsumexp(0)),
        (lambda x: sorting.argmax(x), lambda x: x.argmax()),
        (lambda x: sorting.argmin(x), lambda x: x.argmin()),
        (lambda x: sorting.sort(x, axis=0), lambda x: x.sort(stable=True)),
        (lambda x: scanning.cummax(x, axis=0), lambda x: x.cummax(0)),
        (lambda x: scanning.cummin(x, axis=0), lambda x: x.cummin(0)),
    ],
)
@pytest.mark.parametrize(
    "elements",
    [
        [1.0, np.nan, 2.0, np.nan, 0.0],
        [-np.inf, -np.inf],
        [np.inf, 1.0, -np.inf],
        [-np.inf, 2.0, np.inf, np.inf],
    ],
)
def test_nan_and_infinity_as_in_torch(
    op: Callable[[Any], Any], function: Callable[[Any], Any], elements: list[float]
) -> None:
    x = np.array(elements)
    with np.errstate(all="ignore"):
        actual = op(x)
    expected = function(torch.from_numpy(x))
    for a, e in zip(actual, expected, strict=True) if isinstance(actual, tuple) else [(actual, expected)]:
        np.testing.assert_array_equal(a, e.numpy())


def test_gradient_of_logsumexp_at_minus_infinity() -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    tensor = torch.from_numpy(x.copy()).requires_grad_()
    tensor.logsumexp(1).sum().backward()
    with np.errstate(all="ignore"):
        y = reduction.logsumexp(x, axes=(1,))
        g = reduction.logsumexp.vjp_rule(np.ones(2), y, x, axes=(1,), keepdims=False)  # type: ignore[misc]
    np.testing.assert_array_equal(g, tensor.grad)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_gradient_of_a_half_precision_mean_of_more_elements_than_the_dtype_can_count(dtype: Any) -> None:
    x = np.zeros(100_000, dtype)
    g = reduction.reduce_mean.vjp_rule(np.array(1000, dtype), x[0], x, axes=None, keepdims=False)  # type: ignore[misc]
    assert g.dtype == dtype
    np.testing.assert_allclose(g.astype(np.float64), 0.01, rtol=1e-2)


def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        reduction.reduce_sum(x, axes=(2,))
    with pytest.raises(ShapeError, match="twice"):
        reduction.reduce_sum(x, axes=(1, -1))
    with pytest.raises(ShapeError, match="k = 4 does not fit"):
        sorting.topk(x, k=4, axis=1)
    with pytest.raises(ShapeError, match="cast first"):
        reduction.reduce_mean(np.zeros(3, np.int64))
