"""The matrix exponential and the pseudoinverse.

With `paired`, numbers are complex: pairs of reals along a last axis of 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import product
from ...ir.types import FLOAT64, INT64, is_floating
from ...traits import Traits
from .. import elementwise, reduction, taylor, trigonometry
from ..comparison import greater, greater_equal, isfinite
from ..complex_numbers import Complex
from ..higher_order.stepwise import choose, repeat_step
from ..matrices import (
    Numbers,
    absolute,
    adjoint,
    block,
    concatenate,
    each,
    for_each_matrix,
    identity,
    matmul,
    on_numbers,
    require_matrices,
    require_square,
)
from ..registry import Array, Tensor, Type, operator, require
from ..rounding import ceil
from . import rotations


@operator
def matrix_exp(x: Tensor, *, truncated: bool = False, paired: bool = False) -> Tensor:
    """The exponential of each matrix (..., n, n), the sum of x^k / k!: ATen linalg_matrix_exp.

    If `truncated`, a single matrix of a 1-norm up to 0.05 has only ten correct digits, as in ATen before torch 2.15.
    """


matrix_exp.traits = Traits(costly=True)


_one_to_one = Numbers("n", "n")


@matrix_exp.infer
@_one_to_one.infer
def _(x: Type, truncated: bool = False) -> Type:
    return require_square(x)


@matrix_exp.kernel
@_one_to_one.kernel
def _(x: Array, truncated: bool = False) -> Array:
    if not x.size:
        return x
    if x.shape[-1] == 1:
        return np.asarray(np.exp(x))
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64).reshape(-1, *x.shape[-2:])
    norms = np.abs(wide).sum(axis=-2).max(axis=-1)
    polynomial: taylor.Polynomial = taylor.degree_18
    if len(wide) == 1:  # ATen selects the polynomial by norm only for a single matrix
        polynomial = next((f for bound, f in _polynomials(truncated) if norms[0] <= bound), polynomial)
    halvings = np.ceil(np.log2(np.maximum(norms / taylor.MAX_NORM, 1.0)))
    halvings = np.where(np.isfinite(halvings), halvings, 0)
    result = np.asarray(polynomial(np.eye(x.shape[-1]), wide / 2.0 ** halvings[:, None, None]))
    for done in range(int(halvings.max())):
        unfinished = halvings > done
        result[unfinished] = result[unfinished] @ result[unfinished]
    return np.asarray(result.astype(x.dtype)).reshape(x.shape)


def _polynomials(truncated: bool) -> tuple[tuple[float, taylor.Polynomial], ...]:
    return taylor.TRUNCATED if truncated else taylor.POLYNOMIALS


@matrix_exp.vjp
@_one_to_one.vjp
def _(g: Any, y: Any, x: Any, truncated: bool = False) -> Any:
    # R. Mathias, "A chain rule for matrix functions and applications" (1996): a block of the exponential of a matrix
    # of twice the size
    x_adjoint = adjoint(x)
    size = x.shape[-1]
    above = concatenate(x_adjoint, g, axis=x.ndim - 1)
    below = concatenate(x_adjoint * 0.0, x_adjoint, axis=x.ndim - 1)
    whole = on_numbers(matrix_exp, concatenate(above, below, axis=x.ndim - 2), truncated=truncated)
    return block(whole, size, 2 * size, first_column=size)


@matrix_exp.onnx
@_one_to_one.onnx
def _(x: Any, truncated: bool = False) -> Any:
    wide = each(x, lambda part: elementwise.cast(part, dtype=FLOAT64))
    if x.shape[-1] == 1:  # also for numbers that aren't finite
        return _exponential(wide)
    unit = identity(wide, tuple(x.shape))
    norms = reduction.reduce_max(reduction.reduce_sum(absolute(wide), axes=(-2,)), axes=(-1,))
    halvings = ceil(elementwise.log2(elementwise.maximum(norms * (1.0 / taylor.MAX_NORM), np.ones(()))))
    halvings = for_each_matrix(choose(isfinite(halvings), halvings, 0.0))

    def square_if_needed(result: Any, remaining: Any) -> tuple[Any, list[Any]]:
        is_unfinished = greater(remaining, np.zeros(()))
        return np.asarray(True), [choose(is_unfinished, matmul(result, result), result), remaining - 1.0]

    most = elementwise.cast(reduction.reduce_max(halvings, axes=None), dtype=INT64)
    scaled = wide / elementwise.pow(np.full((), 2.0), halvings)
    result, _ = repeat_step(square_if_needed, [taylor.degree_18(unit, scaled), halvings], most)
    single = product(x.shape[:-2]) == 1
    for bound, polynomial in reversed(_polynomials(truncated) if single else ()):
        fits = for_each_matrix(greater_equal(np.full((), bound), norms))
        result = choose(fits, polynomial(unit, wide), result)
    return result


def _exponential(x: Any) -> Any:
    """The exponential of each number."""
    if not isinstance(x, Complex):
        return elementwise.exp(x)
    size = elementwise.exp(x.real)
    return Complex(size * trigonometry.cos(x.imaginary), size * trigonometry.sin(x.imaginary))


@operator
def pseudo_inverse(
    x: Tensor, absolute: Tensor | None = None, relative: Tensor | None = None, *, paired: bool = False
) -> Tensor:
    """The Moore-Penrose inverse of each matrix, by its singular values: ATen linalg_pinv.

    Args:
        x: (..., m, n).
        absolute: singular values up to this bound count as zero; without dimensions or one for each matrix; 0 by
            default.
        relative: the same bound as a fraction of the largest singular value; if neither is given, the rounding error
            of the dtype times max(m, n).

    Returns:
        (..., n, m).
    """


pseudo_inverse.traits = Traits(costly=True)


_with_bounds = Numbers("nrr", "n")


@pseudo_inverse.infer
@_with_bounds.infer
def _(x: Type, absolute: Type | None = None, relative: Type | None = None) -> Type:
    require_matrices(x)
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
    g_x = -matmul(matmul(inverse, g), inverse) + along - matmul(rows, along) + across - matmul(across, columns)
    return g_x, None, None


pseudo_inverse.onnx(_with_bounds.onnx(rotations.pseudo_inverse))
