"""The matrix exponential and the pseudoinverse.

With `paired`, numbers are complex: pairs of reals along a last axis of 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import FLOAT64, INT64, is_floating
from . import elementwise, elimination, reduction, rotations
from .comparison import greater, isfinite
from .matrices import (
    Numbers,
    absolute,
    adjoint,
    each,
    for_each_matrix,
    identity,
    joined,
    matmul,
    matrix,
    on_numbers,
    part,
    square,
)
from .registry import Array, Tensor, Type, operator, require
from .rounding import ceil
from .stepwise import choose, until


@operator
def matrix_exp(x: Tensor, *, paired: bool = False) -> Tensor:
    """The exponential of each matrix (..., n, n), the sum of x^k / k!: ATen linalg_matrix_exp."""


_one_to_one = Numbers("n", "n")
matrix_exp.infer(_one_to_one.infer(square))

# N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005), table 2.3 and equation 2.6
_LARGEST_NORM = 5.371920351148152
_PADE = [math.factorial(26 - j) // (math.factorial(13 - j) * math.factorial(j)) for j in range(14)]


@matrix_exp.kernel
@_one_to_one.kernel
def _(x: Array) -> Array:
    if not x.size:
        return x
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    norms = np.abs(wide).sum(axis=-2).max(axis=-1)
    halvings = np.ceil(np.log2(np.maximum(norms / _LARGEST_NORM, 1.0)))
    halvings = np.where(np.isfinite(halvings), halvings, 0)[..., None, None]
    wide = wide / 2.0**halvings
    power, by_two = np.eye(x.shape[-1]), wide @ wide
    even, odd = np.zeros_like(wide), np.zeros_like(wide)
    for j in range(0, 14, 2):
        even, odd = even + _PADE[j] * power, odd + _PADE[j + 1] * power
        power = power @ by_two
    odd = wide @ odd
    result = np.linalg.solve(even - odd, even + odd)
    for done in range(int(halvings.max())):
        result = np.where(done < halvings, result @ result, result)
    return np.asarray(result.astype(x.dtype))


@matrix_exp.vjp
@_one_to_one.vjp
def _(g: Any, y: Any, x: Any) -> Any:
    # R. Mathias, "A chain rule for matrix functions and applications" (1996): a block of the exponential of a matrix
    # of twice the size
    along = adjoint(x)
    size = x.shape[-1]
    above = joined(along, g, axis=x.ndim - 1)
    below = joined(along * 0.0, along, axis=x.ndim - 1)
    whole = on_numbers(matrix_exp, joined(above, below, axis=x.ndim - 2))
    return part(whole, size, 2 * size, first_column=size)


@matrix_exp.onnx
@_one_to_one.onnx
def _(x: Any) -> Any:
    wide = each(x, lambda part: elementwise.cast(part, dtype=FLOAT64))
    norms = reduction.reduce_max(reduction.reduce_sum(absolute(wide), axes=(-2,)), axes=(-1,))
    halvings = ceil(elementwise.log2(elementwise.maximum(norms * (1.0 / _LARGEST_NORM), np.ones(()))))
    halvings = for_each_matrix(choose(isfinite(halvings), halvings, 0.0))
    wide = wide / elementwise.pow(np.full((), 2.0), halvings)
    power, by_two = identity(wide, tuple(x.shape)), matmul(wide, wide)
    even, odd = power * float(_PADE[0]), power * float(_PADE[1])
    for j in range(2, 14, 2):
        power = matmul(power, by_two)
        even, odd = even + power * float(_PADE[j]), odd + power * float(_PADE[j + 1])
    odd = matmul(wide, odd)

    def square(result: Any, remaining: Any) -> tuple[Any, list[Any]]:
        halved = greater(remaining, np.zeros(()))
        return np.asarray(True), [choose(halved, matmul(result, result), result), remaining - 1.0]

    most = elementwise.cast(reduction.reduce_max(halvings, axes=None), dtype=INT64)
    result, _ = until(square, [elimination.solve(even - odd, even + odd), halvings], most)
    return result


@operator
def pseudo_inverse(
    x: Tensor, absolute: Tensor | None = None, relative: Tensor | None = None, *, paired: bool = False
) -> Tensor:
    """The Moore-Penrose inverse of each matrix, by its singular values: ATen linalg_pinv.

    Args:
        x: (..., m, n).
        absolute: singular values up to it count as zero; without dimensions or one for each matrix; 0 if not given.
        relative: the same, as a share of the largest singular value; if neither is given, the rounding error of the
            dtype times max(m, n).

    Returns:
        (..., n, m).
    """


_with_bounds = Numbers("nrr", "n")


@pseudo_inverse.infer
@_with_bounds.infer
def _(x: Type, absolute: Type | None = None, relative: Type | None = None) -> Type:
    matrix(x)
    for bound in (absolute, relative):
        require(bound is None or is_floating(bound.dtype), f"needed a floating-point tolerance, given {bound}")
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


@pseudo_inverse.kernel
@_with_bounds.kernel
def _(x: Array, absolute: Array | None = None, relative: Array | None = None) -> Array:
    u, s, v = np.linalg.svd(x, full_matrices=False)
    if relative is None:
        relative = np.asarray(0.0 if absolute is not None else max(x.shape[-2:]) * np.finfo(s.dtype).eps)
    largest = s.max(axis=-1, initial=0.0)
    bound = np.maximum(0.0 if absolute is None else absolute, relative * largest)[..., None]
    inverted = np.divide(1.0, s, out=np.zeros_like(s), where=s > bound)
    return np.asarray(np.conj(np.swapaxes(v, -1, -2)) @ (inverted[..., None] * np.conj(np.swapaxes(u, -1, -2))))


@pseudo_inverse.vjp
@_with_bounds.vjp
def _(g: Any, y: Any, x: Any, absolute: Any, relative: Any) -> Any:
    # G. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
    # variables separate" (1973), equation 4.12
    inverse, back = adjoint(y), adjoint(g)
    rows, columns = matmul(x, y), matmul(y, x)
    along = matmul(back, matmul(y, inverse))
    across = matmul(matmul(inverse, y), back)
    of_x = -matmul(matmul(inverse, g), inverse) + along - matmul(rows, along) + across - matmul(across, columns)
    return of_x, None, None


pseudo_inverse.onnx(_with_bounds.onnx(rotations.pseudo_inverse))
