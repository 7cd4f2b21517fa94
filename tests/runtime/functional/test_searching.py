"""Searches in sorted sequences, runs, quantiles and distances against torch, over drawn shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, ops
from tests.runtime.functional.judging import require_agreement

SEEDS = st.integers(0, 999)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 6), st.booleans(), st.booleans(), SEEDS)
def test_places_in_sorted_sequences(size: int, right: bool, rows: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sequence = np.sort(rng.integers(-3, 4, (2, size) if rows else size).astype(float), -1)
    values = rng.integers(-4, 5, (2, 3)).astype(float)
    require_agreement(
        lambda s, v: ops.searchsorted(s, v, right=right), lambda s, v: torch.searchsorted(s, v, right=right),
        sequence, values, gradients=False,
    )  # fmt: skip
    if not rows:
        shuffled = rng.permutation(sequence)
        sorter = Tensor(np.argsort(shuffled, kind="stable"))
        positions = ops.searchsorted(Tensor(shuffled), Tensor(values), side="right" if right else "left", sorter=sorter)
        assert positions.tolist() == np.searchsorted(sequence, values, "right" if right else "left").tolist()
        require_agreement(
            lambda s, v: ops.bucketize(v, s, right=right).long(), lambda s, v: torch.bucketize(v, s, right=right),
            sequence, values, gradients=False,
        )  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 2), max_size=7), st.sampled_from([None, 0, -1]), SEEDS)
def test_runs(values: list[int], dim: int | None, seed: int) -> None:
    x = np.array(values, float)
    x = x if dim is None else np.stack([x, x[::-1]], 1 if dim == 0 else 0)
    actual = ops.unique_consecutive(Tensor(x), True, True, dim)
    expected = torch.unique_consecutive(torch.from_numpy(x.copy()), True, True, dim)
    for o, t in zip(actual, expected, strict=True):
        assert o.tolist() == t.tolist()
    assert ops.unique_consecutive(Tensor(x), dim=dim).tolist() == expected[0].tolist()


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([None, 0, 1, -1]), st.booleans(), st.booleans(), st.booleans(), SEEDS)
def test_quantiles(axis: int | None, keep: bool, several: bool, with_nan: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 4))
    q: Any = rng.uniform(0, 1, 3) if several else float(rng.uniform())
    share = Tensor(q) if several else q
    t_share = torch.from_numpy(q) if several else q
    require_agreement(lambda a: ops.quantile(a, share, axis, keep), lambda a: torch.quantile(a, t_share, axis, keep), x)
    if with_nan:
        x[rng.random(x.shape) < 0.4] = np.nan
    for function, torch_function in ((ops.quantile, torch.quantile), (ops.nanquantile, torch.nanquantile)):
        result = function(Tensor(x), share, axis, keep).asnumpy()
        np.testing.assert_allclose(result, torch_function(torch.from_numpy(x), t_share, axis, keep).numpy(), rtol=1e-9)
    medians = ops.nanmedian(Tensor(x), -1, keep)
    np.testing.assert_array_equal(medians[0].asnumpy(), torch.nanmedian(torch.from_numpy(x), -1, keep)[0].numpy())


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([(), (2,)]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.0, 1.0, 2.0, 3.0, np.inf]),
    SEEDS,
)
def test_distances(batch: tuple[int, ...], n: int, m: int, p: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((*batch, n, 3)), rng.standard_normal((*batch, m, 3))
    require_agreement(
        lambda x, y: ops.cdist(x, y, p),
        lambda x, y: torch.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist"),
        a, b, rtol=1e-7, gradients=p > 0,
    )  # fmt: skip
    if not batch and n > 1:
        require_agreement(lambda x: ops.pdist(x, p), lambda x: torch.pdist(x, p), a, rtol=1e-7, gradients=p > 0)


def test_the_gradient_of_no_distance_is_zero() -> None:
    x = Tensor(np.ones((2, 3)))
    assert ops.grad(lambda a: ops.cdist(a, a).sum())(x).tolist() == np.zeros((2, 3)).tolist()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ops.searchsorted(Tensor([1.0]), Tensor([1.0]), right=True, side="left"), ValueError),
        (lambda: ops.searchsorted(Tensor([[1.0]]), Tensor([1.0])), ValueError),
        (lambda: ops.quantile(Tensor([1]), 0.5), TypeError),
        (lambda: ops.quantile(Tensor([1.0]), 1.5), ValueError),
        (lambda: ops.cdist(Tensor([[1.0]]), Tensor([[1.0, 2.0]])), ValueError),
        (lambda: ops.cdist(Tensor([[1.0]]), Tensor([[1.0]]), -1.0), ValueError),
        (lambda: ops.pdist(Tensor([1.0])), ValueError),
    ],
)
def test_errors(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="For '"):
        call()


def test_dtypes() -> None:
    positions = ops.searchsorted(Tensor([1.0, 2.0]), Tensor([1.5]), out_int32=True)
    assert (positions.dtype, positions.tolist()) == (ms.int32, [1])
    assert ops.LowerBound(ms.int64)(Tensor([1.0, 2.0]), Tensor([2.0])).dtype == ms.int64
    assert ops.UpperBound()(Tensor([1.0, 2.0]), Tensor([2.0])).tolist() == [2]
