"""Triangular linear systems, and LU factors.

With `paired`, numbers are complex: pairs of reals along a last axis of 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.dims import minimum
from ...ir.types import INT32
from ...traits import Traits
from .. import slicing
from ..common import broadcast_shapes, require_same_dtype, unbroadcast
from ..matrices import (
    Numbers,
    adjoint,
    block,
    concatenate,
    each,
    identity_like,
    lower,
    matmul,
    on_numbers,
    real,
    require_matrices,
    require_square,
)
from ..matrices import upper as upper_part
from ..registry import Array, Tensor, Type, operator, require
from . import elimination


@operator
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, unitriangular: bool = False, paired: bool = False) -> Tensor:
    """The X with a @ X = b, by substitution: ATen linalg_solve_triangular.

    Args:
        a: (..., n, n), of which only one triangle is read.
        b: (..., n, k); leading axes broadcast.
        upper: which triangle.
        unitriangular: whether to treat the diagonal of `a` as ones.

    Returns:
        (..., n, k); infinite or NaN if `a` has a zero on its diagonal.
    """


solve_triangular.traits = Traits(costly=True)


_system = Numbers("nn", "n")


@solve_triangular.infer
@_system.infer
def _(a: Type, b: Type, *, upper: bool, unitriangular: bool) -> Type:
    return _solution(a, b)


def _solution(a: Type, b: Type) -> Type:
    require_square(a)
    require_same_dtype(a, b)
    require(b.rank >= 2 and a.shape[-1] == b.shape[-2], f"needed b of as many rows as a, given shape {b.shape}")
    return b.with_shape((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


@solve_triangular.kernel
@_system.kernel
def _(a: Array, b: Array, *, upper: bool, unitriangular: bool) -> Array:
    return _substitute(a, b, upper=upper, unitriangular=unitriangular)


def _substitute(a: Array, b: Array, *, upper: bool, unitriangular: bool) -> Array:
    if upper:  # from the last row to the first
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    x = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
    for i in range(a.shape[-1]):
        rest = b[..., i, :] - (a[..., i : i + 1, :i] @ x[..., :i, :])[..., 0, :]
        x[..., i, :] = rest if unitriangular else rest / a[..., i, i, None]
    return x[..., ::-1, :] if upper else x


@solve_triangular.vjp
@_system.vjp
def _(g: Any, y: Any, a: Any, b: Any, *, upper: bool, unitriangular: bool) -> Any:
    g_b = on_numbers(solve_triangular, adjoint(a), g, upper=not upper, unitriangular=unitriangular)
    g_a = -matmul(g_b, adjoint(y))
    g_a = upper_part(g_a, int(unitriangular)) if upper else lower(g_a, -int(unitriangular))
    return each(g_a, lambda part: unbroadcast(part, real(a))), each(g_b, lambda part: unbroadcast(part, real(b)))


solve_triangular.onnx(_system.onnx(elimination.solve_triangular))


@operator
def cholesky_solve(b: Tensor, factor: Tensor, *, upper: bool = False, paired: bool = False) -> Tensor:
    """The X with L @ L.T @ X = b, or with U.T @ U @ X = b: ATen cholesky_solve.

    Args:
        b: (..., n, k); leading axes broadcast.
        factor: L or U, (..., n, n), of which only that triangle is read; as in ATen, its gradient outside of the
            triangle is that of the product.
        upper: whether the factor is U.

    Returns:
        (..., n, k).
    """


cholesky_solve.traits = Traits(costly=True)


@cholesky_solve.infer
@_system.infer
def _(b: Type, factor: Type, *, upper: bool) -> Type:
    return _solution(factor, b)


@cholesky_solve.kernel
@_system.kernel
def _(b: Array, factor: Array, *, upper: bool) -> Array:
    left = np.conj(np.swapaxes(factor, -1, -2)) if upper else factor
    half = _substitute(left, b, upper=False, unitriangular=False)
    return _substitute(np.conj(np.swapaxes(left, -1, -2)), half, upper=True, unitriangular=False)


@cholesky_solve.vjp
@_system.vjp
def _(g: Any, y: Any, b: Any, factor: Any, *, upper: bool) -> Any:
    g_b = on_numbers(cholesky_solve, g, factor, upper=upper)
    g_product = matmul(g_b, adjoint(y))
    g_product = g_product + adjoint(g_product)
    g_factor = -(matmul(factor, g_product) if upper else matmul(g_product, factor))
    return (
        each(g_b, lambda part: unbroadcast(part, real(b))),
        each(g_factor, lambda part: unbroadcast(part, real(factor))),
    )


cholesky_solve.onnx(_system.onnx(elimination.cholesky_solve))


@operator
def lu(x: Tensor, *, pivot: bool = True, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Triangular factors of each matrix, with partial pivoting: ATen linalg_lu_factor.

    Args:
        x: (..., m, n).
        pivot: whether to swap rows.

    Returns:
        The factors in one matrix (..., m, n): the upper one, and below the diagonal the lower one, which has ones on
        its diagonal; and int32 (..., min(m, n)), the row, counted from 1, with which each row was swapped in turn.
    """


lu.traits = Traits(costly=True)


_factored = Numbers("n", "ni")


@lu.infer
@_factored.infer
def _(x: Type, *, pivot: bool) -> tuple[Type, Type]:
    require_matrices(x)
    return x, Type(INT32, (*x.shape[:-2], minimum(*x.shape[-2:])))


@lu.kernel
@_factored.kernel
def _(x: Array, *, pivot: bool) -> tuple[Array, Array]:
    # Golub and Van Loan, "Matrix Computations" (2013), algorithm 3.4.1, on all matrices at once
    batch, count = math.prod(x.shape[:-2]), min(x.shape[-2:])
    factors = x.reshape(batch, *x.shape[-2:]).copy()
    every = np.arange(batch)
    pivots = np.tile(np.arange(1, count + 1, dtype=np.int32), (batch, 1))
    for k in range(count):
        if pivot:
            column = factors[:, k:, k]
            chosen = k + np.argmax(np.abs(column.real) + np.abs(column.imag), axis=1)
            pivots[:, k] = chosen + 1
            rows = factors[every, chosen].copy()
            factors[every, chosen] = factors[:, k]
            factors[:, k] = rows
        divisor = factors[:, k, None, k]
        below = factors[:, k + 1 :, k]
        below = np.divide(below, divisor, out=np.array(below), where=divisor != 0)
        factors[:, k + 1 :, k] = below
        factors[:, k + 1 :, k + 1 :] -= below[:, :, None] * factors[:, k, None, k + 1 :]
    return factors.reshape(x.shape), pivots.reshape(*x.shape[:-2], count)


@lu.vjp
@_factored.vjp
def _(g: Any, y: Any, x: Any, *, pivot: bool) -> Any:
    # The gradient of x = P @ L @ U. For a matrix that isn't square, the part of the larger factor beyond a square one
    # is first moved to the square part: F. de Hoog, R. Anderssen, M. Lukas, "Differentiation of matrix functionals
    # using triangular factorization" (2011).
    (packed, pivots), (g, _) = y, g
    rows, columns = x.shape[-2:]
    count = minimum(rows, columns)
    first = block(packed, count, count)
    g_first = block(g, count, count)
    to_upper, to_lower = upper_part(g_first), lower(g_first, -1)
    inner_of_lower, inner_of_upper = (
        matmul(_lower_adjoint(first), to_lower),
        matmul(to_upper, adjoint(upper_part(first))),
    )
    further_right: Any = None
    further_below: Any = None
    if columns != count:
        right, g_right = (block(m, count, columns, first_column=count) for m in (packed, g))
        inner_of_lower = inner_of_lower - matmul(g_right, adjoint(right))
        further_right = _solve_left(first, g_right)
    if rows != count:
        below, g_below = (block(m, rows, count, first_row=count) for m in (packed, g))
        inner_of_upper = inner_of_upper - matmul(adjoint(below), g_below)
        further_below = _solve_right(first, g_below)
    whole = _solve_right(first, _solve_left(first, lower(inner_of_lower, -1) + upper_part(inner_of_upper)))
    if further_right is not None:
        whole = concatenate(whole, further_right, axis=whole.ndim - 1)
    if further_below is not None:
        none, missing = (0,) * whole.ndim, (*[0] * (whole.ndim - 1), columns - count)
        widened = each(further_below, lambda x: slicing.pad(x, before=none, after=missing))
        whole = concatenate(whole, widened, axis=whole.ndim - 2)
    if not pivot:
        return whole
    return matmul(permutation(pivots, real(whole), size=rows), whole)


def _lower_adjoint(packed: Any) -> Any:
    """Return the adjoint of the lower factor, with its ones."""
    return adjoint(lower(packed, -1) + identity_like(packed))


def _solve_left(packed: Any, x: Any) -> Any:
    """Return the inverse of the adjoint of the lower factor times `x`."""
    return on_numbers(solve_triangular, adjoint(packed), x, upper=True, unitriangular=True)


def _solve_right(packed: Any, x: Any) -> Any:
    """Return `x` times the inverse of the adjoint of the upper factor."""
    return adjoint(on_numbers(solve_triangular, packed, adjoint(x), upper=True))


lu.onnx(_factored.onnx(elimination.lu))


@operator
def permutation(pivots: Tensor, like: Tensor, *, size: Any) -> Tensor:
    """The permutation matrix P of the pivots of `lu`, x = P @ L @ U: ATen `lu_unpack`.

    Args:
        pivots: integers (..., k), the row, counted from 1, with which each row was swapped in turn.
        like: a tensor of the result's dtype.
        size: number of rows.

    Returns:
        (..., size, size).
    """


@permutation.infer
def _(pivots: Type, like: Type, *, size: Any) -> Type:
    require(pivots.dtype.kind in "iu" and pivots.rank > 0, f"needed vectors of integers, given {pivots}")
    return Type(like.dtype, (*pivots.shape[:-1], size, size))


@permutation.native_kernel
def _(pivots: Array, like: Array, *, size: int) -> Array:
    batch = math.prod(pivots.shape[:-1])
    exchanges = pivots.reshape(batch, pivots.shape[-1])
    order = np.tile(np.arange(size), (batch, 1))
    every = np.arange(batch)
    for k in range(exchanges.shape[1]):
        other = exchanges[:, k] - 1
        order[every, other], order[:, k] = order[:, k].copy(), order[every, other].copy()
    order = order.reshape(*pivots.shape[:-1], size)
    matrix: Array = order[..., None, :] == np.arange(size)[:, None]
    return matrix.astype(like.dtype)


permutation.vjp(lambda g, y, pivots, like, *, size: (None, None))
permutation.onnx(Numbers("ir", "r").onnx(elimination.permutation))
