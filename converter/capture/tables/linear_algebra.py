"""ATen linear algebra: inverses, systems of equations, determinants, and their factorizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.ir.dims import minimum
from ....runtime.ir.types import INT32
from ....runtime.ops import creation, reduction, shaping, sorting
from ....runtime.ops.comparison import equal, greater, logical_and
from ....runtime.ops.complex_numbers import Complex
from ....runtime.ops.linear_algebra import matrix, symmetric, triangular
from ....runtime.ops.matrices import (
    absolute,
    adjoint,
    block,
    diagonal,
    each,
    identity_like,
    lower,
    matmul,
    matrix_transpose,
    on_numbers,
    real,
    upper,
)  # fmt: skip
from ....runtime.tracing import SymbolicTensor
from .complex_table import aten_complex
from .table import Context, Translation, aten, cast

# torch reports a failure in the number `info`; a program raises an error instead, so its `info` is 0.


def aten_real_and_complex(*targets: str) -> Callable[[Translation], Translation]:
    """Register a translation for real and for complex tensors."""

    def decorate(translation: Translation) -> Translation:
        return aten_complex(*targets)(aten(*targets)(translation))

    return decorate


def zeros(context: Context, shape: Any, dtype: Any) -> Any:
    """A tensor of zeros."""
    return context.builder.create(creation.full, shape=tuple(shape), value=0, dtype=dtype)


# ---- inverses and systems of equations ----


@aten_real_and_complex("aten.linalg_inv_ex.default")
def inv_ex(context: Context, a: Any, *, check_errors: bool = False) -> Any:
    """linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    return on_numbers(matrix.inverse, a), zeros(context, a.shape[:-2], INT32)


@aten_real_and_complex("aten.linalg_inv.default", "aten.inverse.default")
def inv(context: Context, a: Any) -> Any:
    """linalg_inv(Tensor A) -> Tensor"""
    return on_numbers(matrix.inverse, a)


@aten_real_and_complex("aten._linalg_solve_ex.default")
def solve_ex(context: Context, a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (result, LU, pivots, info)"""
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape[:-1]))
    if is_vector:
        columns = each(b, lambda part: shaping.reshape(part, shape=(*part.shape, 1)))
        result = each(on_numbers(matrix.solve, a, columns), lambda part: shaping.reshape(part, shape=context.shape))
    elif left:
        result = on_numbers(matrix.solve, a, b)
    else:
        result = adjoint(on_numbers(matrix.solve, adjoint(a), adjoint(b)))
    factors, pivots = _factor(a, pivot=True) if any(context.used[1:3]) else (None, None)
    return result, factors, pivots, zeros(context, a.shape[:-2], INT32)


@aten_real_and_complex("aten.linalg_solve_triangular.default")
def solve_triangular(
    context: Context, self: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)"""
    options = {"unitriangular": unitriangular}
    if left:
        return on_numbers(triangular.solve_triangular, self, b, upper=upper, **options)
    return adjoint(on_numbers(triangular.solve_triangular, adjoint(self), adjoint(b), upper=not upper, **options))


@aten_real_and_complex("aten.triangular_solve.default")
def old_triangular_solve(
    context: Context, self: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)"""
    turned, is_upper = (matrix_transpose(a), not upper) if transpose else (a, upper)
    x = on_numbers(triangular.solve_triangular, turned, self, upper=is_upper, unitriangular=unitriangular)
    copied = context.types[1]
    assert copied is not None
    return x, each(a, lambda part: part if part.shape == copied.shape else shaping.expand(part, shape=copied.shape))


# ---- determinants ----


@aten_real_and_complex("aten._linalg_det.default")
def det(context: Context, a: Any) -> Any:
    """_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)"""
    factors, pivots = _factor(a, pivot=True) if any(context.used[1:]) else (None, None)
    return on_numbers(matrix.determinant, a), factors, pivots


@aten_real_and_complex("aten._linalg_slogdet.default")
def slogdet(context: Context, a: Any) -> Any:
    """_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    factors, pivots = _factor(a, pivot=True) if any(context.used[2:]) else (None, None)
    if isinstance(a, Complex):
        sign, logarithm = matrix.log_determinant(a.pair(), paired=True)
        return Complex.from_pair(sign), logarithm, factors, pivots
    return *matrix.log_determinant(a), factors, pivots


# ---- LU factors ----


def _factor(x: Any, *, pivot: bool) -> tuple[Any, Any]:
    if isinstance(x, Complex):
        packed, pivots = triangular.lu(x.pair(), pivot=pivot, paired=True)
        return Complex.from_pair(packed), pivots
    packed, pivots = triangular.lu(x, pivot=pivot)
    return packed, pivots


@aten_real_and_complex("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(context: Context, a: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (LU, pivots, info)"""
    return *_factor(a, pivot=pivot), zeros(context, a.shape[:-2], INT32)


@aten_real_and_complex("aten.linalg_lu.default")
def lu(context: Context, a: Any, *, pivot: bool = True) -> Any:
    """linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    packed, pivots = _factor(a, pivot=pivot)
    p, *_ = context.types
    assert p is not None
    if not pivot:  # torch returns an empty one
        return zeros(context, p.shape, p.dtype), *_triangles(packed)
    return _permutation(packed, pivots, a.shape[-2]), *_triangles(packed)


def _permutation(packed: Any, pivots: SymbolicTensor, size: Any) -> Any:
    p = triangular.permutation(pivots, real(packed), size=size)
    return Complex.from_real(p) if isinstance(packed, Complex) else p


def _triangles(packed: Any) -> tuple[Any, Any]:
    """The lower factor (m, k), with a unit diagonal, and the upper one (k, n)."""
    *_, rows, columns = packed.shape
    count = minimum(rows, columns)
    first, last = block(packed, rows, count), block(packed, count, columns)
    return lower(first, -1) + identity_like(first), upper(last)


@aten_real_and_complex("aten.lu_unpack.default")
def lu_unpack(
    context: Context, packed: Any, pivots: SymbolicTensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (P, L, U)"""
    types = [t for t in context.types if t is not None]
    empty = [zeros(context, t.shape, t.dtype) for t in types]
    p = _permutation(packed, pivots, packed.shape[-2]) if unpack_pivots else empty[0]
    return p, *(_triangles(packed) if unpack_data else empty[1:])


@aten_real_and_complex("aten.linalg_lu_solve.default")
def lu_solve(
    context: Context, packed: Any, pivots: SymbolicTensor, b: Any, *, left: bool = True, **options: bool
) -> Any:
    """linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    of_adjoint = options.get("adjoint", False)
    if left:
        return _solve_by_factors(packed, pivots, b, of_adjoint)
    return adjoint(_solve_by_factors(packed, pivots, adjoint(b), not of_adjoint))


def _solve_by_factors(packed: Any, pivots: SymbolicTensor, b: Any, of_adjoint: bool) -> Any:
    """The X with P @ L @ U @ X = b, or with the adjoint of that product."""
    p = triangular.permutation(pivots, real(packed), size=packed.shape[-2])
    if of_adjoint:
        turned = adjoint(packed)
        x = on_numbers(triangular.solve_triangular, turned, b, upper=False)
        return matmul(p, on_numbers(triangular.solve_triangular, turned, x, upper=True, unitriangular=True))
    x = matmul(adjoint(p), b)
    x = on_numbers(triangular.solve_triangular, packed, x, upper=False, unitriangular=True)
    return on_numbers(triangular.solve_triangular, packed, x, upper=True)


# ---- Cholesky factors ----


def _cholesky(x: Any, is_upper: bool) -> Any:
    """The Cholesky factor, from the triangle that torch reads."""
    if is_upper:
        return adjoint(on_numbers(matrix.cholesky, adjoint(x)))
    return on_numbers(matrix.cholesky, x)


@aten_real_and_complex("aten.linalg_cholesky_ex.default")
def cholesky_ex(context: Context, self: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    return _cholesky(self, upper), zeros(context, self.shape[:-2], INT32)


@aten_real_and_complex("aten.cholesky.default", "aten.linalg_cholesky.default")
def cholesky(context: Context, self: Any, *args: Any, upper: bool = False) -> Any:
    """cholesky(Tensor self, bool upper=False) -> Tensor; linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor"""
    return _cholesky(self, args[0] if args else upper)


@aten_real_and_complex("aten.cholesky_solve.default")
def cholesky_solve(context: Context, self: Any, input2: Any, upper: bool = False) -> Any:
    """cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    return on_numbers(triangular.cholesky_solve, self, input2, upper=upper)


@aten_real_and_complex("aten.cholesky_inverse.default")
def cholesky_inverse(context: Context, self: Any, upper: bool = False) -> Any:
    """cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    return on_numbers(triangular.cholesky_solve, identity_like(self), self, upper=upper)


# ---- LDL factors, of symmetric matrices that aren't positive definite ----


@aten_real_and_complex("aten.linalg_ldl_factor_ex.default")
def ldl_factor_ex(context: Context, self: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (LD, pivots, info)"""
    factors, pivots = _ldl(self, hermitian)
    return factors, pivots, _first_zero(context, factors, pivots) if context.used[2] else None


def _ldl(x: Any, hermitian: bool) -> tuple[Any, Any]:
    if isinstance(x, Complex):
        factors, pivots = symmetric.ldl(x.pair(), hermitian=hermitian, paired=True)
        return Complex.from_pair(factors), pivots
    factors, pivots = symmetric.ldl(x)
    return factors, pivots


def _first_zero(context: Context, factors: Any, pivots: SymbolicTensor) -> Any:
    """The position, counted from 1, of the first 1 x 1 block that is 0; 0 if there is none."""
    size = factors.shape[-1]
    if size == 0:
        return zeros(context, pivots.shape[:-1], INT32)
    is_zero = equal(absolute(diagonal(factors)), np.zeros((), factors.dtype))
    is_singular = cast(logical_and(is_zero, greater(pivots, np.zeros((), INT32))), INT32)
    position = cast(sorting.argmax(is_singular, axis=-1) + 1, INT32)
    return position * reduction.reduce_max(is_singular, axes=(-1,))


@aten_real_and_complex("aten.linalg_ldl_solve.default")
def ldl_solve(context: Context, factors: Any, pivots: SymbolicTensor, b: Any, *, hermitian: bool = False) -> Any:
    """linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"""
    if isinstance(b, Complex):
        pairs = (factors.pair(), pivots, b.pair())
        return Complex.from_pair(symmetric.ldl_solve(*pairs, hermitian=hermitian, paired=True))
    return symmetric.ldl_solve(factors, pivots, b)
