"""Pooling against torch over random geometries; ties, NaN and infinity; bins that don't divide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ir.dims import evaluate, symbol
from cellbridge.runtime.ir.types import FLOAT32, Type
from cellbridge.runtime.ops import adaptive_pooling, average_pooling, max_pooling
from tests.runtime.ops.cases_pooling import (
    torch_avg_pool,
    torch_gradient,
    torch_max_pool,
    torch_padded_avg_pool,
    torch_padded_max_pool,
)


@st.composite
def pools(draw: st.DrawFn, *, dilated: bool) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Shape of x and the attributes that all pools have."""
    spatial = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    kernel, stride = each(1, 3), each(1, 4)
    dilation = each(1, 2) if dilated else (1,) * spatial
    padding = tuple((p, p) for p in (draw(st.integers(0, k // 2)) for k in kernel))
    sizes = tuple(draw(st.integers(d * (k - 1) + 1, 9)) for k, d in zip(kernel, dilation, strict=True))
    attributes: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": padding}
    if dilated:
        attributes["dilation"] = dilation
    return (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *sizes), {**attributes, "ceil_mode": draw(st.booleans())}


def values(shape: tuple[int, ...], seed: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "ties":
        return rng.integers(0, 3, shape).astype(np.float32)
    if kind == "special":
        return rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, 1.0]), shape)
    return rng.standard_normal(shape)


@settings(max_examples=80, deadline=None)
@given(pools(dilated=True), st.integers(0, 99), st.sampled_from(["ties", "special", "normal"]))
def test_max_pool_chooses_as_torch_does(pool: Any, seed: int, kind: str) -> None:
    shape, attributes = pool
    x = values(shape, seed, kind)
    expected = torch_max_pool(**attributes)(torch.from_numpy(x))
    actual = max_pooling.max_pool(x, **attributes)
    for array, tensor in zip(actual, expected, strict=True):
        assert array.dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(array, tensor.numpy())


@settings(max_examples=80, deadline=None)
@given(pools(dilated=False), st.booleans(), st.one_of(st.none(), st.integers(1, 5)), st.integers(0, 99))
def test_avg_pool_and_its_gradient_are_torch_s(pool: Any, count: bool, divisor: int | None, seed: int) -> None:
    shape, attributes = pool
    attributes = {**attributes, "count_include_pad": count}
    if divisor is not None and len(shape) > 3:
        attributes["divisor_override"] = divisor
    x = values(shape, seed, "normal")
    reference = torch_avg_pool(**attributes)
    y = average_pooling.avg_pool(x, **attributes)
    np.testing.assert_allclose(y, reference(torch.from_numpy(x)).numpy(), rtol=1e-12, atol=1e-12)
    g = values(y.shape, seed, "normal")
    complete = average_pooling.avg_pool.attributes(attributes)
    actual = average_pooling.avg_pool.vjp_rule(g, y, x, **complete)
    expected = torch_gradient(reference, shape[2:])(torch.from_numpy(g)).detach().numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=3),
    st.integers(0, 99),
    st.sampled_from(["ties", "special", "normal"]),
)
def test_adaptive_pools_are_torch_s(axes: list[tuple[int, int]], seed: int, kind: str) -> None:
    sizes, bins = zip(*axes, strict=True)
    x = values((2, 2, *sizes), seed, kind).astype(np.float64)
    average: Any = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[len(axes) - 1]
    largest: Any = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[len(axes) - 1]
    expected = average(torch.from_numpy(x), bins).numpy()
    with np.errstate(invalid="ignore"):  # infinity - infinity
        actual = adaptive_pooling.adaptive_avg_pool(x, output_size=bins)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    chosen = adaptive_pooling.adaptive_max_pool(x, output_size=bins)
    for array, tensor in zip(chosen, largest(torch.from_numpy(x), bins, return_indices=True), strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())
    g = values(actual.shape, seed, "normal")
    gradient = adaptive_pooling.adaptive_avg_pool.vjp_rule(g, actual, x, output_size=bins)
    to_x = torch_gradient(lambda x: average(x, bins), sizes)(torch.from_numpy(g)).detach().numpy()
    np.testing.assert_allclose(gradient, to_x, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans(), st.integers(0, 99))
def test_padding_may_differ_before_and_after(data: st.DataObject, count: bool, seed: int) -> None:
    shape, attributes = data.draw(pools(dilated=True))
    each = [st.tuples(st.integers(0, k // 2), st.integers(0, k // 2)) for k in attributes["kernel"]]
    attributes = {**attributes, "padding": data.draw(st.tuples(*each)), "ceil_mode": False}
    x = values(shape, seed, "normal")
    expected = torch_padded_max_pool(**attributes)(torch.from_numpy(x))
    for array, tensor in zip(max_pooling.max_pool(x, **attributes), expected, strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())
    del attributes["dilation"]
    reference = torch_padded_avg_pool(count_include_pad=count, **attributes)
    y = average_pooling.avg_pool(x, count_include_pad=count, **attributes)
    np.testing.assert_allclose(y, reference(torch.from_numpy(x)).numpy(), rtol=1e-12, atol=1e-12)


def test_the_gradient_of_overlapping_maxima_adds_up() -> None:
    x = np.array([[[0.0, 5.0, 1.0, 2.0]]])
    attributes: dict[str, Any] = {
        "kernel": (2,),
        "stride": (1,),
        "padding": ((0, 0),),
        "dilation": (1,),
        "ceil_mode": False,
    }
    y = max_pooling.max_pool(x, **attributes)
    g = np.array([[[1.0, 10.0, 100.0]]])
    np.testing.assert_array_equal(max_pooling.max_pool.vjp_rule((g, None), y, x, **attributes), [[[0, 11, 0, 100]]])


def test_the_second_derivative_of_max_pool_reads_where_the_maxima_are() -> None:
    g, indices = np.array([[[1.0, 10.0, 100.0]]]), np.array([[[1, 1, 3]]])
    h = np.array([[[2.0, 3.0, 4.0, 5.0]]])
    to_g, to_indices = max_pooling.max_pool_gradient.vjp_rule(h, None, g, indices, size=(4,))
    np.testing.assert_array_equal(to_g, [[[3, 3, 5]]])
    assert to_indices is None


def test_max_pool_of_integers() -> None:
    x = np.array([[[-5, -7, -3, -9]]], np.int32)
    chosen, indices = max_pooling.max_pool(x, kernel=(2,), stride=(2,), padding=((1, 1),), dilation=(1,))
    np.testing.assert_array_equal(chosen, np.array([[[-5, -3, -9]]], np.int32))
    np.testing.assert_array_equal(indices, [[[0, 2, 3]]])


@settings(max_examples=40, deadline=None)
@given(pools(dilated=True))
def test_counts_may_be_symbolic(pool: Any) -> None:
    shape, attributes = pool
    names = [f"size{i}" for i in range(len(shape))]
    symbolic = Type(FLOAT32, tuple(symbol(name) for name in names))
    inferred = max_pooling.max_pool.infer_types([symbolic], attributes)[0]
    sizes = dict(zip(names, shape, strict=True))
    actual, _ = max_pooling.max_pool(np.zeros(shape, np.float32), **attributes)
    assert tuple(evaluate(dim, sizes) for dim in inferred.shape) == actual.shape


@pytest.mark.parametrize(
    ("shape", "changes", "message"),
    [
        ((1, 1, 8, 8), {"padding": ((2, 2), (0, 0))}, r"padding \(2, 2\) must be at most half a window of 3"),
        ((1, 1, 2, 8), {}, "a window of 3 doesn't fit into 2"),
        ((1, 1, 8, 8), {"stride": (0, 1)}, "must be positive"),
        ((1, 1, 8), {}, "entry per spatial dimension"),
    ],
)
def test_windows_that_do_not_fit_are_refused(shape: Any, changes: Any, message: str) -> None:
    attributes: dict[str, Any] = {
        "kernel": (3, 3),
        "stride": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "dilation": (1, 1),
        **changes,
    }
    with pytest.raises(ShapeError, match=message):
        max_pooling.max_pool(np.ones(shape), **attributes)


def test_only_floating_point_is_averaged() -> None:
    with pytest.raises(ShapeError, match="needed a floating-point tensor, given int64"):
        average_pooling.avg_pool(np.ones((1, 1, 4), np.int64), kernel=(2,), stride=(2,), padding=((0, 0),))
    with pytest.raises(ShapeError, match="needed a floating-point tensor, given int64"):
        adaptive_pooling.adaptive_avg_pool(np.ones((1, 1, 4), np.int64), output_size=(2,))
