"""Inverses, determinants and factors of square matrices, the last two axes of an operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from . import elementwise, linear, shaping
from .common import broadcast_shapes, in_float32, same_dtype, unbroadcast
from .declaring import floating
from .registry import Array, Tensor, Type, operator, require

_NOT_STANDARD = "standard ONNX has no operator for it"


def _square(x: Type) -> Type:
    floating(x)
    require(x.rank >= 2 and x.shape[-1] == x.shape[-2], f"needed square matrices, given shape {x.shape}")
    return x


def _transposed(x: Any) -> Any:
    return shaping.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _as_matrices(g: Any) -> Any:
    """One number for each matrix as 1x1 matrices."""
    return shaping.reshape(g, shape=(*g.shape, 1, 1))


@operator
def inverse(x: Tensor) -> Tensor:
    """The inverse of each matrix (..., n, n); `ShapeError` if one is singular. ATen linalg_inv."""


inverse.infer(_square)


@inverse.kernel
def _(x: Array) -> Array:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError as error:
        raise ShapeError(f"a matrix has no inverse: {error}") from None


@inverse.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor) -> Any:
    return elementwise.neg(linear.matmul(linear.matmul(_transposed(y), g), _transposed(y)))


inverse.no_onnx(_NOT_STANDARD)


@operator
def solve(a: Tensor, b: Tensor) -> Tensor:
    """The X with a @ X = b, for matrices a (..., n, n) and b (..., n, k) whose first axes broadcast.

    `ShapeError` if a matrix is singular. ATen linalg_solve.
    """


@solve.infer
def _(a: Type, b: Type) -> Type:
    _square(a)
    same_dtype(a, b)
    require(b.rank >= 2 and a.shape[-1] == b.shape[-2], f"needed b of as many rows as a, given shape {b.shape}")
    return b.with_shape((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


@solve.kernel
def _(a: Array, b: Array) -> Array:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    try:
        return np.linalg.solve(a, np.broadcast_to(b, (*batch, *b.shape[-2:])))
    except np.linalg.LinAlgError as error:
        raise ShapeError(f"a system of equations has no single solution: {error}") from None


@solve.vjp
@in_float32
def _(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
    of_b = solve(_transposed(a), g)
    of_a = elementwise.neg(linear.matmul(of_b, _transposed(y)))
    return unbroadcast(of_a, a), unbroadcast(of_b, b)


solve.no_onnx(_NOT_STANDARD)


@operator
def determinant(x: Tensor) -> Tensor:
    """The determinant of each matrix (..., n, n); its gradient needs an inverse. ATen linalg_det."""


@determinant.infer
def _(x: Type) -> Type:
    return _square(x).with_shape(x.shape[:-2])


@determinant.kernel
def _(x: Array) -> Array:
    return np.asarray(np.linalg.det(x), x.dtype)


@determinant.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor) -> Any:
    return _as_matrices(g * y) * _transposed(inverse(x))


determinant.no_onnx("ONNX Det-11 has no kernel in ONNX Runtime for the CPU")


@operator
def log_determinant(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sign of the determinant of each matrix (..., n, n), and the logarithm of its absolute value. ATen slogdet."""


@log_determinant.infer
def _(x: Type) -> tuple[Type, Type]:
    value = _square(x).with_shape(x.shape[:-2])
    return value, value


@log_determinant.kernel
def _(x: Array) -> tuple[Array, Array]:
    sign, logarithm = np.linalg.slogdet(x)
    return np.asarray(sign, x.dtype), np.asarray(logarithm, x.dtype)


@log_determinant.vjp
@in_float32
def _(g: Any, y: Any, x: Tensor) -> Any:
    return None if g[1] is None else _as_matrices(g[1]) * _transposed(inverse(x))


log_determinant.no_onnx(_NOT_STANDARD)


@operator
def cholesky(x: Tensor) -> Tensor:
    """The lower triangular L with L @ L.T = x, for symmetric positive definite matrices x (..., n, n).

    `ShapeError` if a matrix isn't positive definite. ATen linalg_cholesky.
    """


cholesky.infer(_square)


@cholesky.kernel
def _(x: Array) -> Array:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError as error:
        raise ShapeError(f"a matrix has no Cholesky factor: {error}") from None


@cholesky.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor) -> Any:
    # I. Murray, "Differentiation of the Cholesky decomposition" (2016), equation 9
    inner = shaping.triangle(linear.matmul(_transposed(y), g), k=0, upper=False)
    inner = inner - shaping.triangle(shaping.triangle(inner, k=0, upper=True), k=0, upper=False) * 0.5
    whole = linear.matmul(linear.matmul(_transposed(inverse(y)), inner), inverse(y))
    return (whole + _transposed(whole)) * 0.5


cholesky.no_onnx(_NOT_STANDARD)
