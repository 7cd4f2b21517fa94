"""Eigenvalues and singular values in ONNX: rotations find what LAPACK finds, but for signs (phases) of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import ConversionError
from cellbridge.runtime.ops.complex_numbers import Complex
from cellbridge.runtime.ops.linear_algebra import rotations
from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.checks import one_node_program

Array = np.ndarray[Any, Any]
BATCHES = st.sampled_from([(), (2,), (2, 1)])
KINDS = ("random", "of rank 1", "zero", "equal values", "far apart")


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def assert_orthonormal_rows(x: Array) -> None:
    product = x @ adjoint(x)
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(x.shape[-2]), product.shape), atol=1e-13)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], complex: bool) -> Array:
    return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if complex else 0.0)


def sampled(kind: str, batch: tuple[int, ...], rows: int, columns: int, seed: int, complex: bool) -> Array:
    """Matrices of a kind that rotations, or LAPACK's signs, may stumble over."""
    rng = np.random.default_rng(seed)
    if kind == "random":
        return numbers(rng, (*batch, rows, columns), complex)
    if kind == "of rank 1":
        return numbers(rng, (*batch, rows, 1), complex) @ numbers(rng, (*batch, 1, columns), complex)
    eye = np.broadcast_to(np.eye(rows, columns), (*batch, rows, columns)) + (0j if complex else 0.0)
    return eye * {"zero": 0.0, "equal values": -2.0, "far apart": 10.0 ** -np.arange(0, 4 * columns, 4)}[kind]


def given_as(x: Array) -> Any:
    return Complex(np.ascontiguousarray(x.real), np.ascontiguousarray(x.imag)) if np.iscomplexobj(x) else x


def array(x: Any) -> Array:
    return x.real + 1j * x.imaginary if isinstance(x, Complex) else np.asarray(x)


@settings(max_examples=30)
@given(
    st.sampled_from(KINDS),
    BATCHES,
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 99),
    st.booleans(),
    st.booleans(),
)
def test_singular_values(
    kind: str, batch: tuple[int, ...], rows: int, columns: int, seed: int, full: bool, complex: bool
) -> None:
    x = sampled(kind, batch, rows, columns, seed, complex)
    u, s, v = map(array, rotations.svd(given_as(x), full=full))
    expected = np.linalg.svd(x, full_matrices=full)
    assert [y.shape for y in (u, s, v)] == [y.shape for y in expected]
    scale = max(1.0, float(s.max()))
    np.testing.assert_allclose(s, expected[1], atol=1e-13 * scale)
    count = min(rows, columns)
    np.testing.assert_allclose((u[..., :count] * s[..., None, :]) @ v[..., :count, :], x, atol=1e-13 * scale)
    assert_orthonormal_rows(adjoint(u))
    assert_orthonormal_rows(v)


@settings(max_examples=30)
@given(st.sampled_from(KINDS), BATCHES, st.integers(1, 7), st.integers(0, 99), st.booleans())
def test_eigenvalues(kind: str, batch: tuple[int, ...], size: int, seed: int, complex: bool) -> None:
    x = sampled(kind, batch, size, size, seed, complex)
    x = x + adjoint(x)
    unread = np.triu(np.full((size, size), np.nan), 1)  # the upper triangle isn't looked at
    values, vectors = map(array, rotations.eigh(given_as(np.where(np.isnan(unread), np.nan, x))))
    scale = max(1.0, float(np.abs(x).max()))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=1e-13 * scale)
    np.testing.assert_allclose(x @ vectors, vectors * values[..., None, :], atol=1e-13 * scale)
    assert_orthonormal_rows(vectors)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.every(2)
def test_in_onnx_runtime(dtype: str) -> None:
    x = np.random.default_rng(3).standard_normal((2, 5, 3)).astype(dtype)
    square = x @ adjoint(x)
    tolerance = {"float64": 1e-13, "float32": 2e-6, "float16": 5e-3}[dtype]
    u, s, v = map(np.asarray, ms.compile(one_node_program(OpCase("svd", (x,)), dtype), "cpu")(x))
    assert {str(y.dtype) for y in (u, s, v)} == {dtype}
    np.testing.assert_allclose((u * s[:, None, :]) @ v, x, atol=tolerance * 5)
    values, vectors = map(np.asarray, ms.compile(one_node_program(OpCase("eigh", (square,)), dtype), "cpu")(square))
    np.testing.assert_allclose(vectors * values[:, None, :] @ adjoint(vectors), square, atol=tolerance * 20)


def test_a_number_of_rows_that_only_the_run_tells_is_refused() -> None:
    program = one_node_program(OpCase("svd", (np.zeros((4, 3)),)), "float32", symbolic=[0])
    with pytest.raises(ConversionError, match=r"op svd .* needed a known number of rows and columns, given n"):
        ms.compile(program, "cpu")


def test_a_wrong_rotation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    rotated = rotations._rotate
    monkeypatch.setattr(rotations, "_rotate", lambda x, cosine, sine: rotated(x, cosine, -sine))
    x = sampled("random", (), 4, 4, 0, complex=False)
    _, s, _ = rotations.svd(x, full=False)
    assert not np.allclose(s, np.linalg.svd(x)[1])
