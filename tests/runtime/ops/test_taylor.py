"""The matrix exponential: as near the true value as torch's, for matrices of every size that its degrees are for."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from cellbridge.converter.torch_version import has_change
from cellbridge.runtime import ops
from cellbridge.runtime.ops import taylor

Array = np.ndarray[Any, Any]
matrix_exp = ops.get("matrix_exp")
AS_TORCH = {"truncated": not has_change("exponential of small matrices")}


def matrix_of(norm: float, size: int, seed: int) -> Array:
    x = np.random.default_rng(seed).standard_normal((size, size))
    return np.asarray(x / np.abs(x).sum(axis=0).max() * norm)


def distance(actual: Array, x: Array) -> float:
    """The largest error, against 40 digits."""
    with mpmath.workdps(40):
        truth = mpmath.expm(mpmath.matrix(x.tolist()), method="taylor")
        pairs = zip(actual.ravel(), truth, strict=True)
        return float(max(abs(mpmath.mpf(float(y)) - exact) for y, exact in pairs))


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm", [1e-17, 1e-9, 1e-5, 0.02, 0.2, 0.9, 3.0, 25.0, 60.0])
def test_it_is_as_near_the_true_value_as_torch(norm: float, dtype: Any) -> None:
    own_error = torch_error = 0.0
    for seed, size in enumerate((2, 3, 5, 8)):
        x = matrix_of(norm, size, seed).astype(dtype)
        own_error += distance(matrix_exp(x), x)
        torch_error += distance(torch.linalg.matrix_exp(torch.from_numpy(x)).numpy(), x)
    assert own_error <= 2 * torch_error


@pytest.mark.parametrize("norm", [1e-17, 1e-9, 1e-5, 0.02, 0.2, 0.9])
def test_small_matrices_have_the_digits_of_torch_in_each_element(norm: float) -> None:
    x = matrix_of(norm, 6, 1)
    given = torch.from_numpy(x).requires_grad_()
    result = torch.linalg.matrix_exp(given)
    cotangent = np.random.default_rng(2).standard_normal(x.shape)
    result.backward(torch.from_numpy(cotangent))
    (gradient,) = matrix_exp.apply_vjp([cotangent], [matrix_exp(x)], [x], {"paired": False} | AS_TORCH)
    assert given.grad is not None
    np.testing.assert_allclose(matrix_exp(x, **AS_TORCH), result.detach().numpy(), rtol=1e-14)
    np.testing.assert_allclose(gradient, given.grad.numpy(), rtol=1e-14)


def test_only_those_for_degree_8_are_truncated() -> None:
    for norm in (1e-5, 0.2):
        np.testing.assert_array_equal(
            matrix_exp(matrix_of(norm, 4, 0), truncated=True), matrix_exp(matrix_of(norm, 4, 0))
        )
    x = matrix_of(0.02, 4, 0)
    assert distance(matrix_exp(x), x) < 1e-15 < 1e-14 < distance(matrix_exp(x, truncated=True), x) < 1e-11


def test_a_batch_of_all_sizes() -> None:
    batch = np.stack([matrix_of(norm, 3, 4) for norm in (50.0, 1e-17, 0.2, 1e-9, 2.0, 1e-5, 0.04, 0.0)])
    torch_results = torch.linalg.matrix_exp(torch.from_numpy(batch)).numpy()
    for actual, by_torch, x in zip(matrix_exp(batch), torch_results, batch, strict=True):
        assert distance(actual, x) <= 2 * distance(by_torch, x) + 1e-16


def test_single_numbers_keep_their_digits() -> None:
    x = np.array([[[-700.0]], [[30.0]]])
    np.testing.assert_array_equal(matrix_exp(x), np.exp(x))


def test_what_is_not_finite_stays_so() -> None:
    batch = np.stack([np.full((2, 2), np.nan), np.full((2, 2), np.inf), np.zeros((2, 2))])
    with np.errstate(invalid="ignore"):
        result = matrix_exp(batch)
    assert np.isnan(result[:2]).all()
    np.testing.assert_array_equal(result[2], np.eye(2))


def test_a_wrong_coefficient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, polynomial = taylor.POLYNOMIALS[-1]
    planted = (*taylor.POLYNOMIALS[:-1], (bound, lambda identity, x: polynomial(identity, x) + 1e-14))
    monkeypatch.setattr(taylor, "POLYNOMIALS", planted)
    with pytest.raises(AssertionError):
        test_it_is_as_near_the_true_value_as_torch(0.2, np.float64)
