"""Inverses, determinants, equations and Cholesky factors against torch, over drawn sizes and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.runtime import Tensor, ops
from tests.runtime.functional.judging import require_agreement

BATCHES = st.sampled_from([(), (1,), (2, 3)])


def matrices(batch: tuple[int, ...], size: int, seed: int) -> np.ndarray[Any, Any]:
    """Well-conditioned matrices, of either sign of the determinant."""
    x = np.random.default_rng(seed).standard_normal((*batch, size, size))
    return x + 3 * np.eye(size) * np.sign(np.diagonal(x, axis1=-2, axis2=-1))[..., None]


@settings(deadline=None, max_examples=25)
@given(BATCHES, st.integers(1, 4), st.integers(0, 999))
def test_of_one_matrix(batch: tuple[int, ...], size: int, seed: int) -> None:
    x = matrices(batch, size, seed)
    require_agreement(ops.inverse, torch.linalg.inv, x)
    require_agreement(ops.det, torch.linalg.det, x)
    require_agreement(lambda a: tuple(ops.slogdet(a)), lambda a: tuple(torch.linalg.slogdet(a)), x)
    require_agreement(lambda a: ops.matrix_power(a, -2), lambda a: torch.linalg.matrix_power(a, -2), x)
    positive = np.swapaxes(x, -1, -2) @ x
    require_agreement(ops.cholesky, torch.linalg.cholesky, positive)
    require_agreement(lambda a: ops.cholesky(a, True), lambda a: torch.linalg.cholesky(a, upper=True), positive)
    require_agreement(lambda a: ops.logdet(a @ a.mT), lambda a: torch.logdet(a @ a.mT), x)


@settings(deadline=None, max_examples=25)
@given(BATCHES, st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(0, 999))
def test_of_equations(batch: tuple[int, ...], size: int, columns: int, flag: bool, seed: int) -> None:
    a = matrices(batch, size, seed)
    b = np.random.default_rng(seed).standard_normal((*batch, size, columns))
    require_agreement(
        lambda x, y: ops.matrix_solve(x, y, flag), lambda x, y: torch.linalg.solve(x.mT if flag else x, y), a, b
    )
    factor = np.linalg.cholesky(a @ np.swapaxes(a, -1, -2))
    factor = np.ascontiguousarray(np.swapaxes(factor, -1, -2)) if flag else factor
    require_agreement(  # the gradient of the other triangle is torch's choice
        lambda y: ops.cholesky_solve(y, Tensor(factor), flag),
        lambda y: torch.cholesky_solve(y, torch.from_numpy(factor), upper=flag),
        b,
    )
    inverse = ops.cholesky_inverse(Tensor(factor), flag).asnumpy()
    np.testing.assert_allclose(inverse, np.linalg.inv(a @ np.swapaxes(a, -1, -2)), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.inverse(Tensor(np.ones((2, 2)))), ValueError, "no inverse"),
        (lambda: ops.inverse(Tensor(np.ones((2, 3)))), ValueError, "square"),
        (lambda: ops.inverse(Tensor([[1]])), TypeError, "floating"),
        (lambda: ops.matrix_solve(Tensor(np.ones((2, 2))), Tensor(np.ones((2, 1)))), ValueError, "solution"),
        (lambda: ops.matrix_solve(Tensor(np.eye(2)), Tensor(np.ones((3, 1)))), ValueError, "rows"),
        (lambda: ops.cholesky(Tensor(-np.eye(2))), ValueError, "Cholesky"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_logarithm_of_a_negative_determinant_is_nan() -> None:
    assert np.isnan(ops.logdet(Tensor(np.diag([1.0, -2.0]))).item())
