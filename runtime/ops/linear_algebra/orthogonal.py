"""QR factors, and products of Householder reflections.

With `paired`, numbers are complex: pairs of reals along a last axis of 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ShapeError
from ...ir.dims import minimum
from ...traits import Traits
from .. import slicing
from ..common import add_cotangents
from ..matrices import (
    Numbers,
    adjoint,
    as_columns,
    block,
    concatenate,
    conjugate,
    each,
    identity_like,
    lower,
    matmul,
    mirror_triangle,
    on_numbers,
    require_matrices,
    upper,
)
from ..registry import Array, Tensor, Type, operator, require
from . import elimination
from .triangular import solve_triangular


@operator
def qr(x: Tensor, *, complete: bool = False, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Orthogonal and upper triangular factors, x = q @ r: ATen linalg_qr.

    Args:
        x: (..., m, n).
        complete: whether `q` is square.

    Returns:
        With k = min(m, n): q (..., m, k) and r (..., k, n); (..., m, m) and (..., m, n) if complete, which has no
        gradient for m > n. The signs are LAPACK's.
    """


qr.traits = Traits(costly=True)


_factored = Numbers("n", "nn")


@qr.infer
@_factored.infer
def _(x: Type, *, complete: bool) -> tuple[Type, Type]:
    require_matrices(x)
    *batch, rows, columns = x.shape
    count = rows if complete else minimum(rows, columns)
    return x.with_shape((*batch, rows, count)), x.with_shape((*batch, count, columns))


@qr.kernel
@_factored.kernel
def _(x: Array, *, complete: bool) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x, mode="complete" if complete else "reduced")
    return q, r


@qr.vjp
@_factored.vjp
def _(g: Any, y: Any, x: Any, *, complete: bool) -> Any:
    # S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
    # experimental design" (2010); for m < n, the columns beyond the first m are q times those of r
    (g_q, g_r), (q, r) = g, y
    rows, columns = x.shape[-2:]
    if complete and minimum(rows, columns) != rows:
        raise ShapeError(f"the complete QR factors of matrices of {rows} rows and {columns} columns have no gradient")
    count = minimum(rows, columns)
    further: Any = None
    if columns != count and g_r is not None:
        right, g_right = (block(m, m.shape[-2], columns, first_column=count) for m in (x, g_r))
        from_right = matmul(right, adjoint(g_right))
        g_q = add_cotangents(g_q, from_right)
        further = matmul(q, g_right)
        g_r = block(g_r, count, count)
    elif columns != count:
        further = block(x, rows, columns, first_column=count) * 0.0
    r = block(r, count, count)
    inner = 0.0 if g_r is None else matmul(g_r, adjoint(r))
    if g_q is not None:
        inner = inner - matmul(adjoint(q), g_q)
    whole = add_cotangents(matmul(q, mirror_triangle(upper(inner))), g_q)
    whole = adjoint(on_numbers(solve_triangular, r, adjoint(whole), upper=True))
    return whole if further is None else concatenate(whole, further, axis=whole.ndim - 1)


qr.onnx(_factored.onnx(elimination.qr))


@operator
def householder_qr(x: Tensor, *, paired: bool = False) -> tuple[Tensor, Tensor]:
    """The QR factors as LAPACK's geqrf packs them: ATen geqrf.

    Args:
        x: (..., m, n).

    Returns:
        (..., m, n): the upper triangular factor, and below the diagonal the vectors of the Householder reflections
        whose product is the orthogonal factor; and (..., min(m, n)), the scales of the reflections.
    """


householder_qr.traits = Traits(costly=True)


@householder_qr.infer
@_factored.infer
def _(x: Type) -> tuple[Type, Type]:
    return require_matrices(x), x.with_shape((*x.shape[:-2], minimum(*x.shape[-2:])))


@householder_qr.kernel
@_factored.kernel
def _(x: Array) -> tuple[Array, Array]:
    packed, scales = np.linalg.qr(x, mode="raw")
    return np.swapaxes(packed, -1, -2), scales


householder_qr.no_vjp("ATen geqrf has none; linalg_qr has")
householder_qr.onnx(_factored.onnx(elimination.householder_qr))


def apply_reflections(packed: Any, scales: Any, x: Any, *, transpose: bool = False) -> Any:
    """Apply Householder reflections, one after the other, to the columns of `x`; a composition of ops.

    Args:
        packed: (..., m, n); the vector v of reflection i is its column i, with 1 on the diagonal and zeros above it.
        scales: (..., k), with k <= n; reflection i is I - scales[i] * v @ v.T.
        x: (..., m, p).
        transpose: whether to apply the adjoint of their product instead.

    Returns:
        (..., m, p).
    """
    vectors = lower(packed, -1)
    vectors = vectors + identity_like(vectors)
    count = scales.shape[-1]
    require(isinstance(count, int), f"needed a known number of reflections, given {count}")
    for i in range(count) if transpose else reversed(range(count)):
        v = block(vectors, packed.shape[-2], i + 1, first_column=i)
        scale = as_columns(_element(scales, i))
        x = x - matmul(v * (conjugate(scale) if transpose else scale), matmul(adjoint(v), x))
    return x


def _element(s: Any, i: int) -> Any:
    """Return element `i` of vectors (..., k) as vectors (..., 1)."""
    axes = (s.ndim - 1,)
    return each(s, lambda x: slicing.slice(x, starts=(i,), stops=(i + 1,), steps=(1,), axes=axes))
