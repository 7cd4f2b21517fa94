"""Eigenvalues and singular values by Jacobi rotations, for lowering to ONNX, which has no operators for them.

Rotations of two columns each are applied until all columns are orthogonal: G. Golub, C. Van Loan, "Matrix
Computations" (2013), section 8.6.3. A round rotates each column of one half with one of the other; then columns are
permuted like the players of a round-robin tournament, so that in a sweep of n - 1 rounds each column is paired with
every other one and returns to its place. Everything is computed in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import Dim
from ...ir.types import FLOAT64
from .. import elementwise, indexing, products, reduction, shaping, slicing, sorting
from ..comparison import equal, greater, less
from ..higher_order.stepwise import choose, positions, repeat_step, scan_slices
from ..matrices import (
    adjoint,
    as_columns,
    as_rows,
    block,
    concatenate,
    conjugate,
    diagonal,
    each,
    for_each_matrix,
    identity,
    lower,
    matmul,
    real,
    squares,
)
from ..registry import require
from . import elimination

_EPSILON = float(np.finfo(np.float64).eps)
_MAX_SWEEPS = 40  # about ten are enough


def eigh(x: Any) -> tuple[Any, Any]:
    """The op `eigh` for a known number of rows; vectors may differ by factors of absolute value 1."""
    size = _require_known(x.shape[-1])
    x = each(lower(x) + adjoint(lower(x, -1)), lambda y: elementwise.cast(y, dtype=FLOAT64))
    # x + shift is positive definite, so its singular values and vectors are its eigenvalues and eigenvectors
    shift = elementwise.sqrt(_sum(squares(x), (-2, -1))) * 2.0
    _, vectors = _orthogonalize(x + for_each_matrix(shift) * identity(real(x), (size, size)))
    values = _sum(real(conjugate(vectors) * matmul(x, vectors)), (-2,))
    values, order = sorting.sort(values, axis=-1)
    return values, _gather_columns(vectors, order)


def pseudo_inverse(x: Any, absolute: Any = None, relative: Any = None) -> Any:
    """The op `pseudo_inverse` for known sizes."""
    epsilon = max(map(_require_known, x.shape[-2:])) * float(np.finfo(x.dtype).eps)
    u, s, v = svd(x, full=False)
    largest = reduction.reduce_max(s, axes=(-1,))
    bound = largest * (epsilon if absolute is None else 0.0)
    if relative is not None:
        bound = largest * elementwise.cast(relative, dtype=FLOAT64)
    if absolute is not None:
        bound = elementwise.maximum(bound, elementwise.cast(absolute, dtype=FLOAT64))
    is_significant = greater(s, as_columns(bound))
    return matmul(
        adjoint(v), as_columns(choose(is_significant, 1.0 / choose(is_significant, s, 1.0), 0.0)) * adjoint(u)
    )


def cofactors(x: Any) -> Any:
    """The op `cofactors` for a known number of rows."""
    u, s, v = svd(x, full=False)
    others = choose(np.eye(_require_known(x.shape[-1]), dtype=bool), 1.0, as_rows(s))
    product = products.reduce_prod(others, axes=(-1,))
    phase = elimination.determinant(u) * elimination.determinant(v)
    return conjugate(matmul(u * as_rows(product), v)) * for_each_matrix(phase)


def svd(x: Any, *, full: bool) -> tuple[Any, Any, Any]:
    """The op `svd` for known sizes; singular vectors may differ by factors of absolute value 1."""
    rows, count = map(_require_known, x.shape[-2:])
    if rows < count:
        u, s, v = svd(adjoint(x), full=full)
        return adjoint(v), s, adjoint(u)
    columns, vectors = _orthogonalize(each(x, lambda y: elementwise.cast(y, dtype=FLOAT64)))
    s, order = sorting.sort(_lengths(columns), axis=-1, descending=True)
    bound = reduction.reduce_max(s, axes=(-1,), keepdims=True) * (rows * _EPSILON)
    directions = _gather_columns(columns, order) / as_rows(choose(greater(s, bound), s, np.inf))
    # unit vectors, which a QR factorization keeps except for signs; and which replaces vectors that are 0
    q, r = elimination.qr(directions, complete=full)
    signs = choose(less(real(diagonal(block(r, count, count))), np.zeros(())), -1.0, np.ones(()))
    first = block(q, rows, count) * as_rows(signs)
    u = (
        concatenate(first, block(q, rows, rows, first_column=count), axis=q.ndim - 1)
        if full and rows > count
        else first
    )
    return u, s, adjoint(_gather_columns(vectors, order))


def _orthogonalize(x: Any) -> tuple[Any, Any]:
    """Return matrices (..., m, n), m >= n, times unitary matrices that orthogonalize their columns; and the latter."""
    rows, count = x.shape[-2:]
    width = count + count % 2  # an additional zero column, without effect, for an odd number of columns
    rank = x.ndim
    more = (*[0] * (rank - 1), width - count)
    x = each(x, lambda y: slicing.pad(y, before=(0,) * rank, after=more))
    noise = _sum(squares(x), (-2, -1)) * (rows * _EPSILON) ** 2

    def rotate_pairs(columns: Any, vectors: Any, worst: Any, _: Any, noise: Any) -> tuple[list[Any], list[Any]]:
        p, q = _halves(columns)
        square_p, square_q = _sum(squares(p), (-2,)), _sum(squares(q), (-2,))
        product = each(conjugate(p) * q, lambda y: _sum(y, (-2,)))
        squared_product = squares(product)
        cosine, sine = _rotation(square_p, square_q, product)
        is_significant = greater(elementwise.minimum(square_p, square_q), as_columns(noise))
        angle = choose(is_significant, squared_product / choose(is_significant, square_p * square_q, 1.0), 0.0)
        worst = elementwise.maximum(worst, reduction.reduce_max(angle, axes=None))
        return [_rotate(columns, cosine, sine), _rotate(vectors, cosine, sine), worst], []

    def sweep(columns: Any, vectors: Any, noise: Any) -> tuple[Any, list[Any]]:
        begin = [columns, vectors, np.zeros((), FLOAT64)]
        (columns, vectors, worst), _ = scan_slices(rotate_pairs, begin, [positions(columns, width - 1)], [noise])
        return greater(worst, np.asarray((rows * _EPSILON) ** 2)), [columns, vectors, noise]

    begin = [x, identity(x, (*x.shape[:-2], width, width)), noise]
    columns, vectors, _ = repeat_step(sweep, begin, np.asarray(_MAX_SWEEPS, np.int64))
    return block(columns, rows, count), block(vectors, count, count)


def _rotation(square_p: Any, square_q: Any, product: Any) -> tuple[Any, Any]:
    """Return cosine and sine of the rotations that make columns p and q, with these squares and products, orthogonal.

    The sine has the phase of the product. Both are smooth, so that a model that is imported from ONNX has gradients.
    """
    difference = square_q - square_p
    square = difference * difference + squares(product) * 4.0
    none = equal(square, np.zeros(()))
    size = elementwise.abs(difference) + elementwise.sqrt(choose(none, 1.0, square))
    tangent = product * (choose(less(difference, np.zeros(())), -2.0, np.full((), 2.0)) / size)
    cosine = 1.0 / elementwise.sqrt(squares(tangent) + 1.0)
    return cosine, tangent * cosine


def _rotate(x: Any, cosine: Any, sine: Any) -> Any:
    """Rotate the columns of matrices in pairs, and permute them for the next round."""
    p, q = _halves(x)
    first = p * as_rows(cosine) - q * as_rows(conjugate(sine))
    both = concatenate(first, p * as_rows(sine) + q * as_rows(cosine), axis=x.ndim - 1)
    half = x.shape[-1] // 2
    above, below = list(range(half)), list(range(half, 2 * half))
    order = above + below if half == 1 else [0, below[0], *above[1:-1], *below[1:], above[-1]]
    return each(both, lambda y: indexing.take(y, np.asarray(order), axis=-1))


def _halves(x: Any) -> tuple[Any, Any]:
    rows, width = x.shape[-2:]
    return block(x, rows, width // 2), block(x, rows, width, first_column=width // 2)


def _gather_columns(x: Any, order: Any) -> Any:
    """Return the columns of matrices at these indices, as many for each matrix as it has columns."""
    indices = shaping.expand(as_rows(order), shape=tuple(x.shape))
    return each(x, lambda y: indexing.gather(y, indices, axis=-1))


def _lengths(x: Any) -> Any:
    """The Euclidean norms of columns."""
    return elementwise.sqrt(_sum(squares(x), (-2,)))


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return reduction.reduce_sum(x, axes=axes)


def _require_known(size: Dim) -> int:
    require(isinstance(size, int), f"needed a known number of rows and columns, given {size}")
    assert isinstance(size, int)
    return size
