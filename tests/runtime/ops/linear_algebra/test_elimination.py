"""Factors of matrices in ONNX: columns one by one give what LAPACK gives, with its pivots and signs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import ops
from cellbridge.runtime.ops.linear_algebra import elimination
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import one_node_program
from tests.runtime.ops.linear_algebra.test_rotations import BATCHES, adjoint, array, given_as, sampled

Array = np.ndarray[Any, Any]
SEEDS = st.integers(0, 99)


def pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], axis=-1) if np.iscomplexobj(x) else x


def check(op: str, *operands: Array, **attributes: Any) -> None:
    """The composition gives what the kernel does."""
    paired = {"paired": True} if any(map(np.iscomplexobj, operands)) else {}
    kernel_results = ops.get(op)(*map(pairs, operands), **attributes, **paired)
    composed_results = getattr(elimination, op)(*map(given_as, operands), **attributes)
    both = zip(*(y if isinstance(y, tuple) else (y,) for y in (composed_results, kernel_results)), strict=True)
    for actual, expected in ((pairs(array(a)), e) for a, e in both):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11)


@settings(max_examples=15)
@given(BATCHES, st.integers(1, 5), st.integers(1, 5), SEEDS, st.booleans(), st.booleans())
def test_factors(batch: tuple[int, ...], rows: int, columns: int, seed: int, complex: bool, option: bool) -> None:
    x = sampled("random", batch, rows, columns, seed, complex)
    check("lu", x, pivot=option)
    check("qr", x, complete=option)
    check("householder_qr", x)


@settings(max_examples=15)
@given(BATCHES, st.integers(1, 5), st.integers(1, 3), SEEDS, st.booleans(), st.booleans())
def test_systems(batch: tuple[int, ...], size: int, width: int, seed: int, complex: bool, upper: bool) -> None:
    a = sampled("random", batch, size, size, seed, complex) + 3.0 * np.eye(size)
    b = sampled("random", (), size, width, seed + 1, complex)
    check("solve", a, b)
    check("inverse", a)
    check("determinant", a)
    check("log_determinant", a)
    check("cholesky", a @ adjoint(a))
    check("cholesky_solve", b, a, upper=upper)
    check("solve_triangular", a, b, upper=upper, unitriangular=not upper)


@pytest.mark.parametrize("complex", [False, True])
def test_matrices_without_elements_have_a_determinant(complex: bool) -> None:
    nothing = sampled("random", (2,), 0, 0, 0, complex)
    check("determinant", nothing)
    check("log_determinant", nothing)


def test_singular_matrices() -> None:
    x = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 0.0, 1.0]])
    check("lu", x)
    check("qr", x, complete=False)
    check("log_determinant", x)
    compiled = ms.compile(one_node_program(OpCase("inverse", (x,)), "float64"), "cpu")
    assert not np.isfinite(compiled(x)).all()  # the interpreter refuses it


def test_large_and_small_numbers() -> None:
    x = sampled("random", (), 4, 3, 0, complex=False).astype(np.float32)
    for scale in (np.float32(1e25), np.float32(1e-25)):  # whose squares overflow or vanish
        q, r = elimination.qr(x * scale, complete=False)
        np.testing.assert_allclose(q @ r, x * scale, rtol=1e-5)


def test_a_wrong_exchange_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "_exchange_rows", lambda x, k, row: x)
    with pytest.raises(AssertionError):
        check("lu", sampled("random", (), 4, 4, 0, complex=False))
