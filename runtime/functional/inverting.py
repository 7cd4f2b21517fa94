"""Inverses, determinants, solutions of linear equations and Cholesky factors of square matrices (..., n, n)."""

from __future__ import annotations

from typing import Any

from ..ops import comparison, elementwise, shaping
from ..ops.linear import matmul
from ..ops.linear_algebra import matrix
from .operands import floating
from .public_op import Primitive, public_op


@public_op(method="inverse", primitive=Primitive("MatrixInverse", without_effect={"adjoint": False}))
def inverse(input: Any) -> Any:
    """The inverse of each matrix.

    Raises:
        TypeError: `input` isn't floating-point.
        ValueError: its last two axes differ in size, or a matrix is singular.
    """
    return matrix.inverse(floating(input, of="inverse"))


@public_op(method=("det", "matrix_determinant"), primitive="MatrixDeterminant", alias="matrix_determinant")
def det(input: Any) -> Any:
    """The determinant of each matrix: (...)."""
    return matrix.determinant(floating(input, of="det"))


@public_op(
    method=("slogdet", "log_matrix_determinant"), primitive="LogMatrixDeterminant", alias="log_matrix_determinant"
)
def slogdet(input: Any) -> tuple[Any, Any]:
    """The sign of the determinant of each matrix, and the logarithm of its absolute value."""
    sign, logarithm = matrix.log_determinant(floating(input, of="slogdet"))
    return sign, logarithm


@public_op(method="logdet")
def logdet(input: Any) -> Any:
    """The logarithm of the determinant of each matrix; NaN for a negative one."""
    sign, logarithm = slogdet(input)
    return elementwise.where(comparison.less(sign, sign * 0), sign * float("nan"), logarithm)


@public_op(primitive=Primitive("MatrixSolve", made_with=("adjoint",)))
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False) -> Any:
    """The X with matrix @ X = rhs (..., n, k), or with the transposed matrices if `adjoint`."""
    return _solution(floating(matrix, "matrix", of="matrix_solve"), floating(rhs, "rhs", of="matrix_solve"), adjoint)


@public_op(method="cholesky", primitive=Primitive("Cholesky", made_with=("upper",)))
def cholesky(input_x: Any, upper: bool = False) -> Any:
    """The triangular L with L @ L.T = input_x, or its transpose with `upper`; `ValueError` if there is none."""
    factor = matrix.cholesky(floating(input_x, "input_x", of="cholesky"))
    return _transposed(factor) if upper else factor


@public_op(method="cholesky_inverse", primitive=Primitive("CholeskyInverse", made_with=("upper",)))
def cholesky_inverse(input_x: Any, upper: bool = False) -> Any:
    """The inverse of the matrices of which `input_x` are the Cholesky factors."""
    factor = floating(input_x, "input_x", of="cholesky_inverse")
    product = matmul(_transposed(factor), factor) if upper else matmul(factor, _transposed(factor))
    return matrix.inverse(product)


@public_op(method="cholesky_solve", primitive=Primitive("CholeskySolve", made_with=("upper",)))
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """The X with A @ X = input, where `input2` are the Cholesky factors of A."""
    b, factor = floating(input, of="cholesky_solve"), floating(input2, "input2", of="cholesky_solve")
    lower = _transposed(factor) if upper else factor
    return _solution(lower, matrix.solve(lower, b), transpose=True)


def _solution(a: Any, b: Any, transpose: bool) -> Any:
    return matrix.solve(_transposed(a) if transpose else a, b)


def _transposed(x: Any) -> Any:
    return shaping.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
