"""Sums, means, products, truths, variances, medians and norms: as torch's, with MindSpore's defaults and dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad, ops
from tests.runtime.functional.judging import require_agreement

X = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])
F = Tensor(X.astype(np.float32))
I = Tensor(np.array([[1, -2, 3], [4, 5, -6]], np.int32))  # noqa: E741
FLAGS = Tensor(np.array([[True, False, True], [False, False, True]]))

# ---- over drawn axes ----

Axis = int | tuple[int, ...] | None


def _all(x: torch.Tensor, axis: Axis) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis in (None, ()) else axis if isinstance(axis, tuple) else (axis,)  # type: ignore[return-value]


def _product(x: torch.Tensor, axis: Axis, kept: bool) -> torch.Tensor:
    for a in sorted((a % x.ndim for a in _all(x, axis)), reverse=True):
        x = x.prod(a, keepdim=kept)
    return x


OVER_AXES: dict[str, tuple[Any, Any]] = {
    "sum": (ops.sum, lambda x, a, k: x.sum(_all(x, a), keepdim=k)),
    "Tensor.sum": (lambda x, a, k: x.sum(a, keepdims=k), lambda x, a, k: x.sum(_all(x, a), keepdim=k)),
    "ReduceSum": (lambda x, a, k: ops.ReduceSum(keep_dims=k)(x, a), lambda x, a, k: x.sum(_all(x, a), keepdim=k)),
    "mean": (ops.mean, lambda x, a, k: x.mean(_all(x, a), keepdim=k)),
    "ReduceMean": (lambda x, a, k: ops.ReduceMean(k)(x, a), lambda x, a, k: x.mean(_all(x, a), keepdim=k)),
    "prod": (ops.prod, _product),
    "ReduceProd": (lambda x, a, k: ops.ReduceProd(k)(x, a), _product),
    "amax": (ops.amax, lambda x, a, k: x.amax(_all(x, a), keepdim=k)),
    "ReduceMin": (lambda x, a, k: ops.ReduceMin(k)(x, a), lambda x, a, k: x.amin(_all(x, a), keepdim=k)),
    "logsumexp": (ops.logsumexp, lambda x, a, k: x.logsumexp(_all(x, a), keepdim=k)),
    "var": (lambda x, a, k: ops.var(x, a, 0, k), lambda x, a, k: x.var(_all(x, a), correction=0, keepdim=k)),
    "std": (lambda x, a, k: x.std(a, 1, k), lambda x, a, k: x.std(_all(x, a), correction=1, keepdim=k)),
    "vector_norm": (
        lambda x, a, k: ops.vector_norm(x, 3, a, k),
        lambda x, a, k: torch.linalg.vector_norm(x, 3, _all(x, a), keepdim=k),
    ),
    "norm": (
        lambda x, a, k: ops.norm(x, None, a, k),
        lambda x, a, k: torch.linalg.vector_norm(x, 2, _all(x, a), keepdim=k),
    ),
}


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(sorted(OVER_AXES)),
    st.sampled_from([None, (), 0, -1, 1, (0,), (0, 2), (1, -1), (2, 0, 1), [0, 1]]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_reductions_over_any_axes_agree_with_torch(name: str, axis: Any, kept: bool, seed: int) -> None:
    function, torch_function = OVER_AXES[name]
    x = np.random.default_rng(seed).standard_normal((2, 3, 4))
    judged = tuple(axis) if isinstance(axis, list) else axis
    require_agreement(
        lambda t: function(t, axis, kept), lambda t: torch_function(t, judged, kept), x, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("axis", [None, (), 0, (0, 1), -1])
def test_truths(name: str, axis: Any) -> None:
    expected = getattr(np, name)(FLAGS.asnumpy(), axis=None if axis == () else axis, keepdims=True)
    primitive = getattr(ops, f"Reduce{name.capitalize()}")
    for result in (
        getattr(ops, name)(FLAGS, axis, True),
        getattr(FLAGS, name)(axis, True),
        primitive(True)(FLAGS, axis),
    ):
        assert (result.dtype, result.tolist()) == (ms.bool_, expected.tolist())
    assert getattr(ops, name)(I).item() is True


# ---- defaults and spellings ----


def test_the_ways_to_write_a_sum() -> None:
    column = [[5.0, -1.5, -3.0]]
    kept = [F.sum(0, True), F.sum(0, keepdims=True), F.sum(dim=0, keepdim=True), F.sum(axis=0, keepdims=True)]
    kept += [ops.sum(F, 0, True), ops.sum(F, dim=0, keepdim=True), ops.ReduceSum(keep_dims=True)(F, 0)]
    kept += [ops.ReduceSum(True)(F, axis=0), ops.ReduceSum(True)(F, Tensor(0)), ops.ReduceSum(True)(F, (0,))]
    assert all(total.tolist() == column for total in kept)
    assert F.sum(initial=3).item() == 3.5
    assert F.sum(0, ms.float16).dtype == ops.sum(F, dtype=ms.float16).dtype == ms.float16
    assert ops.reduce_sum(F, 1).tolist() == F.sum([1]).tolist() == [2.0, -1.5]
    assert ops.ReduceSum()(F).shape == ops.sum(F, ()).shape == ()
    assert ops.ReduceSum(skip_mode=True)(F).shape == (2, 3)


def test_the_ways_to_write_others() -> None:
    assert F.mean(0, True).tolist() == F.mean(axis=0, keep_dims=True).tolist() == ops.mean(F, 0, True).tolist()
    assert F.mean(dim=0, keepdim=True).tolist() == ops.ReduceMean(keep_dims=True)(F, 0).tolist()
    assert ops.reduce_mean(F, 1).tolist() == F.mean(1).tolist()
    assert F.prod(0).tolist() == ops.prod(F, 0).tolist() == ops.ReduceProd()(F, 0).tolist() == [4.0, -1.0, -18.0]
    assert ops.count_nonzero(I - 1, axis=0).tolist() == I.subtract(1).count_nonzero(0).tolist() == [1, 2, 2]
    assert ops.count_nonzero(F, dtype=ms.int64).dtype == ms.int64
    assert F.logsumexp(dim=0, keepdim=True).shape == (1, 3)
    assert F.var(axis=1, ddof=1, keepdims=True).tolist() == F.var(dim=1, correction=1, keepdim=True).tolist()


def test_dtypes_of_integer_reductions() -> None:
    small = Tensor(np.array([200, 100], np.uint8))
    assert (ops.sum(small).dtype, small.sum().item(), FLAGS.sum().dtype, FLAGS.sum().item()) == (
        ms.int64,
        300,
        ms.int64,
        3,
    )
    assert (ops.prod(small).dtype, small.prod().item(), ops.prod(FLAGS).item()) == (ms.int64, 20000, 0)
    assert [ops.ReduceSum()(x).dtype for x in (I, small, FLAGS)] == [ms.int32, ms.uint8, ms.bool_]
    assert [ops.ReduceProd()(x).dtype for x in (I, small, FLAGS)] == [ms.int32, ms.uint8, ms.bool_]
    assert ops.ReduceSum()(FLAGS, 0).tolist() == [True, False, True]
    assert (ops.mean(I, 1).dtype, ops.mean(I, 1).tolist()) == (ms.int32, [0, 1])
    assert (ops.mean(I, 0).tolist(), ops.mean(Tensor([-1, -2, -6])).item()) == ([2, 1, -1], -3)
    assert (ops.mean(FLAGS).dtype, ops.mean(FLAGS).item()) == (ms.float32, 0.5)
    assert {f(I).dtype for f in (ops.norm, ops.var, ops.std)} == {np.dtype(ms.float32)}
    assert ops.count_nonzero(I).dtype == ms.int32
    assert {f(F.astype(ms.float16)).dtype for f in (ops.sum, ops.mean, ops.var, ops.norm)} == {np.dtype(ms.float16)}


def test_what_is_no_number_is_left_out() -> None:
    x = np.array([[1.0, math.nan, 3.0], [math.nan, math.nan, 2.0]])
    require_agreement(lambda t: ops.nansum(t, 1, True), lambda t: torch.nansum(t, 1, True), x)
    require_agreement(lambda t: ops.nanmean(t, 0), lambda t: torch.nanmean(t, 0), x[:, [0, 2]])
    assert math.isnan(ops.nanmean(Tensor(x), 0).tolist()[1])
    assert math.isnan(Tensor(x).sum().item())


def test_scalars_and_empty_tensors() -> None:
    scalar = Tensor(3.0)
    assert [scalar.sum(0).item(), scalar.mean(-1).item(), ops.ReduceMax()(scalar).item()] == [3.0, 3.0, 3.0]
    empty = Tensor(np.zeros((0, 3), np.float32))
    assert (empty.sum(0).tolist(), empty.prod().item(), empty.all().item()) == ([0.0] * 3, 1.0, True)
    with pytest.raises(ValueError, match="no element"):
        empty.max()


# ---- variances ----


def test_variances_have_no_correction_by_default() -> None:
    for axis, ddof in ((None, 0), (1, 0), (0, 1)):
        require_agreement(lambda t, a=axis, d=ddof: t.var(a, d), lambda t, a=axis, d=ddof: t.var(a, correction=d), X)
    np.testing.assert_allclose(ops.var(F).item(), X.var(), rtol=1e-6)
    np.testing.assert_allclose(F.std().item(), X.std(), rtol=1e-6)
    assert ops.var(F, ddof=True).item() == ops.var(F, ddof=1).item()
    for unbiased in (True, False):
        std, mean = ops.ReduceStd(axis=1, unbiased=unbiased, keep_dims=True)(F)
        np.testing.assert_allclose(std.asnumpy(), X.std(1, ddof=int(unbiased), keepdims=True), rtol=1e-6)
        np.testing.assert_allclose(mean.asnumpy(), X.mean(1, keepdims=True), rtol=1e-6)
    for pair, first in ((ops.var_mean, torch.var), (ops.std_mean, torch.std)):
        require_agreement(
            lambda t, p=pair: p(t, 1, 1, True), lambda t, f=first: (f(t, 1, keepdim=True), t.mean(1, keepdim=True)), X
        )


@pytest.mark.parametrize("shape", [(5,), (4,), (3, 4), (2, 3, 5)])
def test_medians(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape)
    for axis in range(-1, len(shape)):
        require_agreement(lambda t, a=axis: ops.median(t, a), lambda t, a=axis: t.median(a), x)
        require_agreement(lambda t, a=axis: t.median(a, True), lambda t, a=axis: t.median(a, True), x)
    value, index = ops.Median(global_median=True)(Tensor(x))
    assert (value.item(), index.shape) == (torch.tensor(x).median().item(), ())
    assert ops.median(F)[1].dtype == ms.int64
    assert ops.median(Tensor(3.0))[0].item() == 3.0


# ---- norms ----


@pytest.mark.parametrize("order", [None, "fro", 1, -1, math.inf, -math.inf])
@pytest.mark.parametrize("kept", [False, True])
def test_matrix_norms(order: Any, kept: bool) -> None:
    require_agreement(
        lambda t: ops.norm(t, order, keepdim=kept),
        lambda t: torch.linalg.norm(t, order, keepdim=kept),
        X,
    )
    if order is not None:
        x = np.random.default_rng(0).standard_normal((2, 3, 4))
        require_agreement(
            lambda t: ops.matrix_norm(t, order, (2, 0), kept),
            lambda t: torch.linalg.matrix_norm(t, order, (2, 0), kept),
            x,
        )


@pytest.mark.parametrize("order", [0, 1, 2, 3, 2.5, -1, math.inf, -math.inf])
def test_vector_norms(order: float) -> None:
    require_agreement(lambda t: ops.norm(t, order, 1), lambda t: torch.linalg.norm(t, order, 1), X)
    require_agreement(lambda t: ops.norm(t[0], order), lambda t: torch.linalg.norm(t[0], order), X)
    require_agreement(lambda t: ops.vector_norm(t, order), lambda t: torch.linalg.vector_norm(t, order), X)
    require_agreement(
        lambda t: ops.dist(t, 1.0, order), lambda t: torch.dist(t, torch.ones(()).double(), order), X + 0.25
    )


def test_other_norms() -> None:
    assert ops.norm(F, dtype=ms.float16).dtype == ms.float16
    np.testing.assert_allclose(ops.LpNorm(axis=1, p=1, keep_dims=True)(F).asnumpy(), [[6.0], [10.5]])
    assert ops.LpNorm(axis=0, p=2)(Tensor([0.0, 0.0])).item() == np.float32(1e-12)
    assert grad(ops.norm)(Tensor([0.0, 0.0])).tolist() == [0.0, 0.0]
    assert ops.norm(Tensor(np.ones((2, 2, 2), np.float32))).item() == pytest.approx(math.sqrt(8))


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.sum(F, 2), ValueError, "axis 2 is out of range"),
        (lambda: ops.ReduceMean()(F, (0, 0)), ValueError, "twice"),
        (lambda: ops.sum(F, 1.0), TypeError, "'axis' must be an int"),
        (lambda: F.sum("a"), TypeError, "'axis'"),
        (lambda: ops.ReduceSum(keep_dims=1)(F), TypeError, "'keep_dims' must be bool"),
        (lambda: F.any(0, 1), TypeError, "'keep_dims' must be bool"),
        (lambda: ops.logsumexp(F), TypeError, "dim"),
        (lambda: ops.norm(F, "nuc"), ValueError, "'ord'.*'nuc'"),
        (lambda: ops.norm(Tensor(np.ones((2, 2, 2))), 2), ValueError, "one or two axes"),
        (lambda: ops.vector_norm(F, "fro"), ValueError, "'ord' must be a number"),
        (lambda: ops.matrix_norm(F, axis=0), ValueError, "two axes"),
        (lambda: ops.var(F, ddof=0.5), TypeError, "'ddof'"),
        (lambda: ops.mean("x"), TypeError, "'mean'"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
