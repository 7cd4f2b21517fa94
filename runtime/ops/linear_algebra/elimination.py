"""Factorizations of matrices column by column, for lowering to ONNX, which has no operators for them.

These are functions of matrices (..., m, n), real or `Complex`, composed of ops that ONNX has. G. Golub, C. Van Loan,
"Matrix Computations" (2013), chapters 3 to 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import Dim, minimum
from ...ir.types import INT32, INT64
from .. import creation, elementwise, indexing, matrices, products, reduction, shaping, sorting
from ..common import broadcast_shapes
from ..comparison import equal, greater, greater_equal, logical_and
from ..complex_numbers import Complex
from ..float_parts import signbit
from ..higher_order.stepwise import choose, positions, scan_slices
from ..matrices import (
    absolute,
    adjoint,
    as_columns,
    as_rows,
    block,
    concatenate,
    conjugate,
    each,
    for_each_matrix,
    identity,
    matmul,
    real,
    squares,
)

_ROWS, _COLUMNS = -2, -1  # axes along which matrices are split


def lu(x: Any, *, pivot: bool = True) -> tuple[Any, Any]:
    """The op `lu`."""
    rows, columns = x.shape[-2:]

    def step(factors: Any, k: Any) -> tuple[list[Any], list[Any]]:
        row, column = positions(factors, rows), positions(factors, columns)
        chosen = []
        if pivot:
            sizes = choose(greater_equal(row, k), _sum_of_parts(_take(factors, k, _COLUMNS)), -1.0)
            chosen = [sorting.argmax(sizes, axis=-1)]
            factors = _exchange_rows(factors, k, chosen[0])
        first = _take(factors, k, _COLUMNS)
        divisor = _take(first, k, _COLUMNS)
        divisor = choose(_is_zero(divisor), 1.0, divisor)  # the elements below the divisor are zero too
        below = as_columns(first / as_columns(divisor))
        rest = choose(greater(column, k), factors - below * as_rows(_take(factors, k, _ROWS)), factors)
        return [choose(as_columns(greater(row, k)), choose(equal(column, k), below, rest), factors)], chosen

    count = minimum(rows, columns)
    (factors,), pivots = scan_slices(step, [x], [positions(x, count)])
    if pivot:
        return factors, elementwise.cast(_move_last_axis(pivots[0], back=True) + 1, dtype=INT32)
    in_place = elementwise.cast(positions(x, count) + 1, dtype=INT32)
    return factors, shaping.expand(in_place, shape=(*x.shape[:-2], count))


def permutation(pivots: Any, like: Any, *, size: Dim) -> Any:
    """The op `permutation`."""

    def step(matrix: Any, chosen: Any, k: Any) -> tuple[list[Any], list[Any]]:
        return [_exchange_rows(matrix, k, chosen - 1)], []

    initial = identity(like, (*pivots.shape[:-1], size, size))
    others = elementwise.cast(_move_last_axis(pivots), dtype=INT64)
    (permuted,), _ = scan_slices(step, [initial], [others, positions(pivots, pivots.shape[-1])])
    return adjoint(permuted)


def solve_triangular(a: Any, b: Any, *, upper: bool, unitriangular: bool = False) -> Any:
    """The op `solve_triangular`."""
    rows, columns = b.shape[-2:]
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])

    def step(x: Any, k: Any, a: Any, others: Any, b: Any) -> tuple[list[Any], list[Any]]:
        row = as_rows(_take(b, k, _ROWS)) - matmul(as_rows(_take(others, k, _ROWS)), x)
        if not unitriangular:
            row = row / for_each_matrix(_take(_take(a, k, _ROWS), k, _COLUMNS))
        return [choose(as_columns(equal(positions(x, rows), k)), row, x)], []

    others = matrices.upper(a, 1) if upper else matrices.lower(a, -1)
    (x,), _ = scan_slices(
        step, [_zeros(b, (*batch, rows, columns))], [positions(b, rows)], [a, others, b], reverse=upper
    )
    return x


def cholesky_solve(b: Any, factor: Any, *, upper: bool) -> Any:
    """The op `cholesky_solve`."""
    left = adjoint(factor) if upper else factor
    return solve_triangular(adjoint(left), solve_triangular(left, b, upper=False), upper=True)


def solve(a: Any, b: Any) -> Any:
    """The op `solve`, but infinite or NaN for a singular matrix."""
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (each(x, lambda part: shaping.expand(part, shape=(*batch, *part.shape[-2:]))) for x in (a, b))
    rows, width = a.shape[-1], a.shape[-1] + b.shape[-1]
    factors, _ = lu(concatenate(a, b, axis=a.ndim - 1))  # the row operations on a are applied to b as well
    return solve_triangular(block(factors, rows, rows), block(factors, rows, width, first_column=rows), upper=True)


def inverse(x: Any) -> Any:
    """The op `inverse`, but infinite or NaN for a singular matrix."""
    return solve(x, identity(x, tuple(x.shape)))


def determinant(x: Any) -> Any:
    """The op `determinant`."""
    diagonal, sign = _eliminate(x)
    return _product(diagonal) * sign


def log_determinant(x: Any) -> tuple[Any, Any]:
    """The op `log_determinant`."""
    diagonal, sign = _eliminate(x)
    sizes = absolute(diagonal)
    signs = diagonal / choose(_is_zero(sizes), 1.0, sizes)
    return _product(signs) * sign, reduction.reduce_sum(elementwise.log(sizes), axes=(-1,))


def cholesky(x: Any) -> Any:
    """The op `cholesky`, but NaN for a matrix that isn't positive definite."""
    size = x.shape[-1]

    def step(factor: Any, k: Any, x: Any) -> tuple[list[Any], list[Any]]:
        indices = positions(factor, size)
        dots = matmul(factor, as_columns(conjugate(_take(factor, k, _ROWS))))
        rest = _take(x, k, _COLUMNS) - _take(dots, np.asarray(0), _COLUMNS)
        root = elementwise.sqrt(real(_take(rest, k, _COLUMNS)))
        below = choose(greater(indices, k), rest / as_columns(root), 0.0)
        column = choose(equal(indices, k), as_columns(root), below)
        return [choose(equal(indices, k), as_columns(column), factor)], []

    (factor,), _ = scan_slices(step, [_zeros(x, tuple(x.shape))], [positions(x, size)], [x])
    return factor


def householder_qr(x: Any) -> tuple[Any, Any]:
    """The op `householder_qr`, with the signs and scales of LAPACK's geqrf."""
    rows, columns = x.shape[-2:]

    def step(packed: Any, k: Any) -> tuple[list[Any], list[Any]]:
        row, column = positions(packed, rows), positions(packed, columns)
        whole = _take(packed, k, _COLUMNS)
        tail = choose(greater(row, k), whole, 0.0)
        first = _take(whole, k, _COLUMNS)
        length = _length(choose(greater_equal(row, k), whole, 0.0))
        beta = choose(signbit(real(first)), length, -length)
        nothing = _is_zero(_length(tail))
        if isinstance(first, Complex):
            nothing = logical_and(nothing, _is_zero(first.imaginary))
        beta = choose(nothing, real(first), beta)
        scale = choose(nothing, 0.0, (beta - first) / choose(nothing, 1.0, beta))
        v = choose(equal(row, k), 1.0, tail / as_columns(choose(nothing, 1.0, first - beta)))
        along_v = matmul(adjoint(as_columns(v)), packed)
        reflected = packed - as_columns(v * as_columns(conjugate(scale))) * along_v
        packed_column = as_columns(choose(greater(row, k), v, as_columns(beta)))
        rest = choose(greater(column, k), reflected, choose(equal(column, k), packed_column, packed))
        return [choose(as_columns(greater_equal(row, k)), rest, packed)], [scale]

    (packed,), (scales,) = scan_slices(step, [x], [positions(x, minimum(rows, columns))])
    return packed, _move_last_axis(scales, back=True)


def qr(x: Any, *, complete: bool) -> tuple[Any, Any]:
    """The op `qr`."""
    rows, columns = x.shape[-2:]
    count = rows if complete else minimum(rows, columns)
    packed, scales = householder_qr(x)

    def step(q: Any, scale: Any, k: Any, packed: Any) -> tuple[list[Any], list[Any]]:
        row = positions(q, rows)
        v = choose(equal(row, k), 1.0, choose(greater(row, k), _take(packed, k, _COLUMNS), 0.0))
        return [q - as_columns(v * as_columns(scale)) * matmul(adjoint(as_columns(v)), q)], []

    initial = identity(x, (*x.shape[:-2], rows, count))
    slices = [_move_last_axis(scales), positions(x, minimum(rows, columns))]
    (q,), _ = scan_slices(step, [initial], slices, [packed], reverse=True)
    return q, matrices.upper(block(packed, count, columns))


# ---- shared helpers ----


def _take(x: Any, k: Any, axis: int) -> Any:
    """Return the slice at index `k` along an axis, without that axis."""
    return each(x, lambda part: indexing.take(part, k, axis=axis))


def _exchange_rows(x: Any, k: Any, other: Any) -> Any:
    """Swap the rows `k` and `other` of matrices, where `other` has an index for each matrix."""
    row, other = positions(x, x.shape[-2]), as_columns(other)
    indices = shaping.expand(as_columns(other), shape=(*x.shape[:-2], 1, x.shape[-1]))
    raised = each(x, lambda part: indexing.gather(part, indices, axis=_ROWS))
    lowered = choose(as_columns(equal(row, other)), as_rows(_take(x, k, _ROWS)), x)
    return choose(as_columns(equal(row, k)), raised, lowered)


def _eliminate(x: Any) -> tuple[Any, Any]:
    """Return the diagonal of the upper factor of square matrices, and the sign of the permutation, 1 or -1."""
    if x.shape[-1] == 0:
        return matrices.diagonal(x), creation.full_like(real(x), 1, shape=tuple(x.shape[:-2]))
    factors, pivots = lu(x)
    in_place = equal(pivots, elementwise.cast(positions(x, x.shape[-1]) + 1, dtype=INT32))
    ones = creation.full_like(real(x), 1, shape=tuple(pivots.shape))
    return matrices.diagonal(factors), products.reduce_prod(choose(in_place, ones, -1.0), axes=(-1,))


def _product(x: Any) -> Any:
    """Return the product of the elements of each vector (..., n)."""
    if not isinstance(x, Complex):
        return products.reduce_prod(x, axes=(-1,))
    one = Complex.from_real(creation.full_like(x.real, 1, shape=tuple(x.shape[:-1])))
    if x.shape[-1] == 0:
        return one
    (product,), _ = scan_slices(lambda so_far, factor: ([so_far * factor], []), [one], [_move_last_axis(x)])
    return product


def _move_last_axis(x: Any, *, back: bool = False) -> Any:
    """Move the last axis to the front, or with `back` the first axis to the end."""
    rank = x.ndim
    order = (*range(1, rank), 0) if back else (rank - 1, *range(rank - 1))
    return each(x, lambda part: shaping.transpose(part, permutation=order))


def _zeros(like: Any, shape: tuple[Dim, ...]) -> Any:
    return each(like, lambda part: creation.full_like(part, 0, shape=shape))


def _is_zero(x: Any) -> Any:
    sizes = _sum_of_parts(x)
    return equal(sizes, np.zeros((), sizes.dtype))


def _sum_of_parts(x: Any) -> Any:
    """|Re x| + |Im x|, LAPACK's criterion for pivots."""
    if isinstance(x, Complex):
        return elementwise.abs(x.real) + elementwise.abs(x.imaginary)
    return elementwise.abs(x)


def _length(x: Any) -> Any:
    """The Euclidean norm of vectors (..., n), computed without overflow or underflow of squares."""
    sizes = _sum_of_parts(x)
    largest = reduction.reduce_max(sizes, axes=(-1,), keepdims=True)
    scaled = x / choose(_is_zero(largest), 1.0, largest)
    length = elementwise.sqrt(reduction.reduce_sum(squares(scaled), axes=(-1,), keepdims=True)) * largest
    return shaping.reshape(length, shape=tuple(x.shape[:-1]))
