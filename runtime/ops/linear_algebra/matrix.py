"""Inverses, determinants and Cholesky factors of square matrices, which are the last two axes of an operand.

With `paired`, numbers are complex: pairs of reals along a last axis of 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ShapeError
from ...ir.types import FLOAT64, at_least_float32
from ...traits import Traits
from .. import reduction
from ..common import broadcast_shapes, require_same_dtype, unbroadcast
from ..complex_numbers import Complex
from ..matrices import (
    Numbers,
    adjoint,
    conjugate,
    each,
    for_each_matrix,
    lower,
    matmul,
    matrix_transpose,
    on_numbers,
    real,
    require_square,
)
from ..registry import Array, OnnxGraph, Tensor, Type, operator, require
from . import elimination, rotations, triangular


@operator
def inverse(x: Tensor, *, paired: bool = False) -> Tensor:
    """The inverse of each matrix (..., n, n); `ShapeError` if one is singular. ATen linalg_inv."""


inverse.traits = Traits(costly=True, in_cells=True)


_one_to_one = Numbers("n", "n")
inverse.infer(_one_to_one.infer(require_square))


@inverse.kernel
@_one_to_one.kernel
def _(x: Array) -> Array:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError as error:
        raise ShapeError(f"a matrix has no inverse: {error}") from None


@inverse.vjp
@_one_to_one.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    return -matmul(matmul(adjoint(y), g), adjoint(y))


inverse.onnx(_one_to_one.onnx(elimination.inverse))


@operator
def solve(a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor:
    """The X with a @ X = b, for matrices a (..., n, n) and b (..., n, k) whose leading axes broadcast.

    `ShapeError` if a matrix is singular. ATen linalg_solve.
    """


solve.traits = Traits(costly=True)


_two_to_one = Numbers("nn", "n")


@solve.infer
@_two_to_one.infer
def _(a: Type, b: Type) -> Type:
    require_square(a)
    require_same_dtype(a, b)
    require(b.rank >= 2 and a.shape[-1] == b.shape[-2], f"needed b with as many rows as a, given shape {b.shape}")
    return b.with_shape((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


@solve.kernel
@_two_to_one.kernel
def _(a: Array, b: Array) -> Array:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    try:
        return np.linalg.solve(a, np.broadcast_to(b, (*batch, *b.shape[-2:])))
    except np.linalg.LinAlgError as error:
        raise ShapeError(f"a system of equations has no unique solution: {error}") from None


@solve.vjp
@_two_to_one.vjp
def _(g: Any, y: Any, a: Any, b: Any) -> Any:
    g_b = on_numbers(solve, adjoint(a), g)
    g_a = -matmul(g_b, adjoint(y))
    return each(g_a, lambda part: unbroadcast(part, real(a))), each(g_b, lambda part: unbroadcast(part, real(b)))


solve.onnx(_two_to_one.onnx(elimination.solve))


@operator
def determinant(x: Tensor, *, paired: bool = False) -> Tensor:
    """The determinant of each matrix (..., n, n): ATen linalg_det, ONNX Det-11."""


determinant.traits = Traits(costly=True)


@determinant.infer
@_one_to_one.infer
def _(x: Type) -> Type:
    return require_square(x).with_shape(x.shape[:-2])


@determinant.kernel
@_one_to_one.kernel
def _(x: Array) -> Array:
    return np.asarray(np.linalg.det(x))


@determinant.vjp
@_one_to_one.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    return for_each_matrix(g) * conjugate(on_numbers(cofactors, x))


@determinant.onnx
def _(graph: OnnxGraph, x: str, *, paired: bool) -> Any:
    dtype = graph.type(x).dtype
    if paired or dtype == FLOAT64:  # ONNX Runtime has no kernel of Det in float64
        return _one_to_one.onnx(elimination.determinant)(graph, x, paired=paired)
    return graph.cast(graph.op("Det", graph.cast(x, at_least_float32(dtype))), dtype)


@operator
def cofactors(x: Tensor, *, paired: bool = False) -> Tensor:
    """The matrix of cofactors of each matrix (..., n, n), the derivatives of its determinant.

    It is det(x) times the transposed inverse, if there is an inverse.
    """


cofactors.traits = Traits(costly=True)


cofactors.infer(_one_to_one.infer(require_square))


@cofactors.kernel
@_one_to_one.kernel
def _(x: Array) -> Array:
    # the cofactors of the factors of u @ diag(s) @ v are known even if x is singular
    u, s, v = np.linalg.svd(x)
    others = np.where(np.eye(x.shape[-1], dtype=bool), 1, s[..., None, :]).prod(axis=-1)
    phase = np.linalg.det(u) * np.linalg.det(v)
    return np.asarray(phase[..., None, None] * np.conj((u * others[..., None, :]) @ v))


@cofactors.vjp
@_one_to_one.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    # y is the determinant times the transposed inverse; x must be invertible here
    y, w = conjugate(y), conjugate(matrix_transpose(on_numbers(inverse, x)))
    share = each(g * y, lambda part: reduction.reduce_sum(part, axes=(-2, -1), keepdims=True))
    return share * w - matmul(matmul(y, matrix_transpose(g)), w)


cofactors.onnx(_one_to_one.onnx(rotations.cofactors))


@operator
def log_determinant(x: Tensor, *, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Sign of the determinant of each matrix (..., n, n), and the log of its absolute value. ATen slogdet.

    The sign of a complex number is the number divided by its absolute value; the logarithm is always real.
    """


log_determinant.traits = Traits(costly=True)


_signed = Numbers("n", "nr")


@log_determinant.infer
@_signed.infer
def _(x: Type) -> tuple[Type, Type]:
    value = require_square(x).with_shape(x.shape[:-2])
    return value, value


@log_determinant.kernel
@_signed.kernel
def _(x: Array) -> tuple[Array, Array]:
    sign, logarithm = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(logarithm)


@log_determinant.vjp
@_signed.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    # a real sign is constant; a complex one rotated by an angle t has the derivative sign * i dt
    g_sign, g_logarithm = g
    share = 0.0 if g_logarithm is None else g_logarithm
    if isinstance(x, Complex) and g_sign is not None:
        angle = (g_sign * y[0].conjugate()).imaginary
        share = Complex(angle * 0.0 if g_logarithm is None else g_logarithm, angle)
    if g_logarithm is None and not isinstance(share, Complex):
        return None
    return for_each_matrix(share) * adjoint(on_numbers(inverse, x))


log_determinant.onnx(_signed.onnx(elimination.log_determinant))


@operator
def cholesky(x: Tensor, *, paired: bool = False) -> Tensor:
    """The lower triangular L with L @ L.T = x, for symmetric positive definite matrices x (..., n, n).

    Only the lower triangle of `x` is read. The gradient is with respect to a symmetric matrix. Complex matrices are
    Hermitian, with x = L @ L.H. `ShapeError` if a matrix isn't positive definite. ATen linalg_cholesky.
    """


cholesky.traits = Traits(costly=True, in_cells=True)


cholesky.infer(_one_to_one.infer(require_square))


@cholesky.kernel
@_one_to_one.kernel
def _(x: Array) -> Array:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError as error:
        raise ShapeError(f"a matrix has no Cholesky factor: {error}") from None


@cholesky.vjp
@_one_to_one.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    # I. Murray, "Differentiation of the Cholesky decomposition" (2016), equation 9
    inner = matmul(adjoint(y), g)
    inner = (lower(inner) + adjoint(lower(inner, -1))) * 0.5
    left = on_numbers(triangular.solve_triangular, adjoint(y), inner, upper=True)
    return adjoint(on_numbers(triangular.solve_triangular, adjoint(y), adjoint(left), upper=True))


cholesky.onnx(_one_to_one.onnx(elimination.cholesky))
