"""Inverses, determinants, linear solvers and Cholesky factors of square matrices (..., n, n)."""

from __future__ import annotations

from typing import Any

from ..ops import comparison, elementwise, shaping
from ..ops.linear import matmul
from ..ops.linear_algebra import matrix
from .operands import require_floating
from .public_op import Primitive, public_op


@public_op(method="inverse", primitive=Primitive("MatrixInverse", ignored_args={"adjoint": False}))
def inverse(input: Any) -> Any:
    """The inverse of each matrix.

    Raises:
        TypeError: `input` isn't floating-point.
        ValueError: its last two axes differ in size, or a matrix is singular.
    """
    return matrix.inverse(require_floating(input, of="inverse"))


@public_op(method=("det", "matrix_determinant"), primitive="MatrixDeterminant", alias="matrix_determinant")
def det(input: Any) -> Any:
    """The determinant of each matrix: (...)."""
    return matrix.determinant(require_floating(input, of="det"))


@public_op(
    method=("slogdet", "log_matrix_determinant"), primitive="LogMatrixDeterminant", alias="log_matrix_determinant"
)
def slogdet(input: Any) -> tuple[Any, Any]:
    """The sign of the determinant of each matrix, and the logarithm of its absolute value."""
    sign, logarithm = matrix.log_determinant(require_floating(input, of="slogdet"))
    return sign, logarithm


@public_op(method="logdet")
def logdet(input: Any) -> Any:
    """The logarithm of the determinant of each matrix; NaN if the determinant is negative."""
    sign, logarithm = slogdet(input)
    return elementwise.where(comparison.less(sign, sign * 0), sign * float("nan"), logarithm)


@public_op(primitive=Primitive("MatrixSolve", init_args=("adjoint",)))
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False) -> Any:
    """Solve matrix @ X = rhs, (..., n, k), for X; with `adjoint`, for the transposed matrices."""
    return _solve(
        require_floating(matrix, "matrix", of="matrix_solve"), require_floating(rhs, "rhs", of="matrix_solve"), adjoint
    )


@public_op(method="cholesky", primitive=Primitive("Cholesky", init_args=("upper",)))
def cholesky(input_x: Any, upper: bool = False) -> Any:
    """Cholesky factor: the lower triangular L with L @ L.T = `input_x`, or L.T if `upper`.

    `ValueError` if a matrix has none.
    """
    factor = matrix.cholesky(require_floating(input_x, "input_x", of="cholesky"))
    return _transpose(factor) if upper else factor


@public_op(method="cholesky_inverse", primitive=Primitive("CholeskyInverse", init_args=("upper",)))
def cholesky_inverse(input_x: Any, upper: bool = False) -> Any:
    """The inverse of each matrix with the Cholesky factor `input_x`."""
    factor = require_floating(input_x, "input_x", of="cholesky_inverse")
    product = matmul(_transpose(factor), factor) if upper else matmul(factor, _transpose(factor))
    return matrix.inverse(product)


@public_op(method="cholesky_solve", primitive=Primitive("CholeskySolve", init_args=("upper",)))
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """Solve A @ X = `input` for X, where `input2` is the Cholesky factor of A."""
    b, factor = require_floating(input, of="cholesky_solve"), require_floating(input2, "input2", of="cholesky_solve")
    lower = _transpose(factor) if upper else factor
    return _solve(lower, matrix.solve(lower, b), transpose=True)


def _solve(a: Any, b: Any, transpose: bool) -> Any:
    return matrix.solve(_transpose(a) if transpose else a, b)


def _transpose(x: Any) -> Any:
    return shaping.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
