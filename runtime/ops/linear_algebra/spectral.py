"""Eigenvalues and singular values of matrices, which are the last two axes of an operand.

With `paired`, numbers are complex: pairs of reals along a last axis of 2. Vectors are unique only up to a factor of
absolute value 1: here they are LAPACK's, like torch's on the CPU, and in ONNX they may differ. Functions that depend on
that factor have no meaningful gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import minimum
from ...traits import Traits
from ..complex_numbers import Complex
from ..matrices import (
    Numbers,
    adjoint,
    as_columns,
    as_rows,
    block,
    conjugate,
    diagonal,
    diagonal_matrix,
    differences,
    identity_like,
    matmul,
    off_diagonal,
    on_numbers,
    real,
    require_matrices,
    require_square,
)
from ..registry import Array, Tensor, Type, operator
from . import rotations
from .matrix import solve


@operator
def eigh(x: Tensor, *, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric (or Hermitian) matrices; only the lower triangle is read.

    The gradient is with respect to a symmetric matrix. ATen linalg_eigh.

    Args:
        x: (..., n, n).

    Returns:
        The eigenvalues (..., n), ascending, and the eigenvectors as the columns of matrices (..., n, n).
    """


eigh.traits = Traits(costly=True)


_hermitian = Numbers("n", "rn")


@eigh.infer
@_hermitian.infer
def _(x: Type) -> tuple[Type, Type]:
    return require_square(x).with_shape(x.shape[:-1]), x


@eigh.kernel
@_hermitian.kernel
def _(x: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(x)
    return values, vectors


@eigh.vjp
@_hermitian.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    # M. Giles, "An extended collection of matrix derivative results" (2008), section 3.1
    (g_values, g_vectors), (values, vectors) = g, y
    inner: Any = 0.0
    if g_vectors is not None:
        inner = off_diagonal(matmul(adjoint(vectors), g_vectors) / differences(values))
        inner = (inner + adjoint(inner)) * 0.5
    if g_values is not None:
        inner = diagonal_matrix(g_values, x) + inner
    return matmul(matmul(vectors, inner), adjoint(vectors))


eigh.onnx(_hermitian.onnx(rotations.eigh))


@operator
def eig(x: Tensor, *, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of general square matrices, complex even for real matrices: ATen linalg_eig.

    Args:
        x: (..., n, n).

    Returns:
        As pairs of reals, the eigenvalues (..., n, 2), in no particular order, and the normalized eigenvectors as the
        columns of matrices (..., n, n, 2).
    """


eig.traits = Traits(costly=True)


_general = Numbers("n", "cc")


@eig.infer
@_general.infer
def _(x: Type) -> tuple[Type, Type]:
    return require_square(x).with_shape(x.shape[:-1]), x


@eig.kernel
@_general.kernel
def _(x: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eig(x)
    return values, vectors


@eig.vjp
@_general.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    # C. Boeddeker et al., "On the computation of complex-valued gradients with application to statistically optimum
    # beamforming" (2017), equation 4.77, and a term that keeps the length of the vectors at 1
    (g_values, g_vectors), (values, vectors) = g, y
    adjoint_vectors = adjoint(vectors)
    inner: Any = 0.0
    if g_vectors is not None:
        projected = matmul(adjoint_vectors, g_vectors)
        lengthening = matmul(adjoint_vectors, vectors) * as_rows(real(diagonal(projected)))
        inner = off_diagonal((projected - lengthening) / conjugate(differences(values)))
    if g_values is not None:
        inner = diagonal_matrix(g_values, vectors) + inner
    return on_numbers(solve, adjoint_vectors, matmul(inner, adjoint_vectors))


eig.no_onnx("standard ONNX has no operator for eigenvalues of matrices that aren't symmetric")


@operator
def svd(x: Tensor, *, full: bool = False, paired: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition, x = u @ diag(s) @ v: ATen linalg_svd.

    Args:
        x: (..., m, n).
        full: whether `u` and `v` are square. Their additional columns and rows get no gradient.

    Returns:
        With k = min(m, n): u (..., m, k), or (..., m, m) if full; s (..., k), descending; v (..., k, n), or
        (..., n, n) if full.
    """


svd.traits = Traits(costly=True)


_singular = Numbers("n", "nrn")


@svd.infer
@_singular.infer
def _(x: Type, *, full: bool) -> tuple[Type, ...]:
    require_matrices(x)
    (*batch, rows, columns), count = x.shape, minimum(*x.shape[-2:])
    left, right = (rows, columns) if full else (count, count)
    return x.with_shape((*batch, rows, left)), x.with_shape((*batch, count)), x.with_shape((*batch, right, columns))


@svd.kernel
@_singular.kernel
def _(x: Array, *, full: bool) -> tuple[Array, Array, Array]:
    u, s, v = np.linalg.svd(x, full_matrices=full)
    return u, s, v


@svd.vjp
@_singular.vjp
def _(g: Any, y: Any, x: Any, *, full: bool) -> Any:
    # J. Townsend, "Differentiating the singular value decomposition" (2016); for complex matrices Z. Wan, S. Zhang,
    # "Automatic differentiation for complex valued SVD" (2019)
    (g_u, g_s, g_v), (u, s, v) = g, y
    (rows, columns), count = x.shape[-2:], minimum(*x.shape[-2:])
    if full:
        u, v = block(u, rows, count), block(v, count, columns)
        g_u = None if g_u is None else block(g_u, rows, count)
        g_v = None if g_v is None else block(g_v, count, columns)
    squares, unit = differences(s * s), identity_like(as_rows(s) * as_columns(s))
    inner: Any = 0.0
    outside: list[Any] = []
    if g_u is not None:
        projected = matmul(adjoint(u), g_u)
        skew = projected - adjoint(projected)
        inner = inner + off_diagonal(skew / squares) * as_rows(s)
        if isinstance(skew, Complex) and g_v is not None:  # the phase of u relative to v
            inner = inner + skew * unit / (as_rows(s) * 2.0)
        if rows != count:
            outside.append(matmul((g_u - matmul(u, projected)) / as_rows(s), v))
    if g_v is not None:
        projected = matmul(v, adjoint(g_v))
        inner = inner + off_diagonal((projected - adjoint(projected)) / squares) * as_columns(s)
        if columns != count:
            outside.append(matmul(u / as_rows(s), g_v - matmul(adjoint(projected), v)))
    if g_s is not None:
        inner = inner + as_rows(g_s) * unit
    result = matmul(matmul(u, inner), v)
    for share in outside:
        result = result + share
    return result


svd.onnx(_singular.onnx(rotations.svd))
