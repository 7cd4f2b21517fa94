"""Factors of symmetric matrices that needn't be positive definite, and solutions of linear systems by them.

The factors are those of LAPACK's sytrf and sytrs (hetrf and hetrs for Hermitian matrices) for the lower triangle:
J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems" (1977). With
`paired`, numbers are complex: pairs of reals along a last axis of 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...ir.types import INT32
from ...traits import Traits
from ..common import broadcast_shapes, require_same_dtype
from ..matrices import Numbers, require_square
from ..registry import Array, Tensor, Type, operator, require

_NO_GRADIENT = "torch has no gradient of it either"
_NO_ONNX = "the elements of each matrix determine which of its diagonal blocks have size 2"
_GROWTH = (1 + math.sqrt(17)) / 8  # smallest ratio of a pivot to the largest element beside it


@operator
def ldl(x: Tensor, *, hermitian: bool = False, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Factors L and D of each matrix, x = L @ D @ L.T up to swapped rows and columns: ATen linalg_ldl_factor.

    Args:
        x: (..., n, n), of which only the lower triangle is read.
        hermitian: whether complex matrices are Hermitian, x = L @ D @ L.H; else symmetric.

    Returns:
        The factors in one matrix (..., n, n): D on the diagonal, in blocks of size 1 and 2, and L below, which has
        ones on its diagonal; and int32 (..., n), the row, counted from 1, with which each row was swapped in turn. For
        a block of size 2, both entries are the negative of that of its second row.
    """


ldl.traits = Traits(costly=True)


_factored = Numbers("n", "ni")


@ldl.infer
@_factored.infer
def _(x: Type, *, hermitian: bool) -> tuple[Type, Type]:
    return require_square(x), Type(INT32, x.shape[:-1])


@ldl.kernel
@_factored.kernel
def _(x: Array, *, hermitian: bool) -> tuple[Array, Array]:
    factors, pivots = np.tril(x), np.zeros(x.shape[:-1], np.int32)
    for index in np.ndindex(x.shape[:-2]):
        _factor(factors[index], pivots[index], hermitian)
    return factors, pivots


ldl.no_vjp(_NO_GRADIENT)
ldl.no_onnx(_NO_ONNX)


def _factor(a: Array, pivots: Array, hermitian: bool) -> None:
    """Factor one matrix in place, in its lower triangle, and record the swaps."""
    size, k = len(a), 0
    while k < size:
        if hermitian:  # remove the rounding error in its imaginary part
            np.fill_diagonal(a, np.diagonal(a).real)
        other, width = _pivot(a, k)
        last = k + width - 1
        if other != last:
            _exchange(a, last, other, k, hermitian)
        pivots[k : k + width] = other + 1 if width == 1 else -(other + 1)
        if width == 1:
            _eliminate(a, k, hermitian)
        else:
            _eliminate_two(a, k, hermitian)
        k += width


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """Return the row to swap with the last one of the next block, and the size of that block."""
    pivot_size, below = _size(a[k, k]), _size(a[k + 1 :, k])
    largest = below.max(initial=0.0)
    if (
        not max(pivot_size, largest) > 0 or pivot_size >= _GROWTH * largest
    ):  # nothing to eliminate, or the pivot is large enough
        return k, 1
    row = k + 1 + int(np.argmax(below))
    beside = max(_size(a[row, k:row]).max(initial=0.0), _size(a[row + 1 :, row]).max(initial=0.0))
    if pivot_size >= _GROWTH * largest * (largest / beside):
        return k, 1
    return (row, 1) if _size(a[row, row]) >= _GROWTH * beside else (row, 2)


def _size(x: Array) -> Any:
    """|Re x| + |Im x|, LAPACK's criterion for pivots."""
    return np.abs(x.real) + np.abs(x.imag)


def _exchange(a: Array, row: int, other: int, begin: int, hermitian: bool) -> None:
    """Swap two rows and columns, `row < other`, of the lower triangle, from column `begin` on."""
    conjugate = np.conj if hermitian else np.asarray
    a[other + 1 :, [row, other]] = a[other + 1 :, [other, row]]
    between = a[row + 1 : other, row].copy()
    a[row + 1 : other, row] = conjugate(a[other, row + 1 : other])
    a[other, row + 1 : other] = conjugate(between)
    a[other, row] = conjugate(a[other, row])
    a[row, row], a[other, other] = a[other, other].copy(), a[row, row].copy()
    a[[row, other], begin:row] = a[[other, row], begin:row]


def _eliminate(a: Array, k: int, hermitian: bool) -> None:
    """Eliminate the column of a block of size 1 from the remaining matrix, and divide the column by the block."""
    if a[k, k] == 0:  # the column is 0 too
        return
    column = a[k + 1 :, k]
    scaled = column * (1 / a[k, k])
    a[k + 1 :, k + 1 :] -= np.tril(np.outer(scaled, np.conj(column) if hermitian else column))
    a[k + 1 :, k] = scaled


def _eliminate_two(a: Array, k: int, hermitian: bool) -> None:
    """Eliminate both columns of a block of size 2, likewise."""
    conjugate = np.conj if hermitian else np.asarray
    first, second = a[k + 2 :, k].copy(), a[k + 2 :, k + 1].copy()
    below = a[k + 1, k]
    if hermitian:
        scale = np.abs(below)
        turn = below / scale
    else:
        scale, turn = below, np.ones_like(below)
    scaled_second, scaled_first = a[k + 1, k + 1] / scale, a[k, k] / scale
    factor = 1 / (scaled_second * scaled_first - 1) / scale
    a[k + 2 :, k] = factor * (scaled_second * first - turn * second)
    a[k + 2 :, k + 1] = factor * (scaled_first * second - conjugate(turn) * first)
    update = np.outer(first, conjugate(a[k + 2 :, k])) + np.outer(second, conjugate(a[k + 2 :, k + 1]))
    a[k + 2 :, k + 2 :] -= np.tril(update)


@operator
def ldl_solve(factors: Tensor, pivots: Tensor, b: Tensor, *, hermitian: bool = False, paired: bool = False) -> Tensor:
    """The X with A @ X = b, from the factors and pivots that `ldl` returns for A: ATen linalg_ldl_solve.

    Args:
        factors: (..., n, n).
        pivots: int32 (..., n).
        b: (..., n, k); leading axes broadcast.
        hermitian: see `ldl`.

    Returns:
        (..., n, k); infinite or NaN where A is singular.
    """


ldl_solve.traits = Traits(costly=True)


_solved = Numbers("nin", "n")


@ldl_solve.infer
@_solved.infer
def _(factors: Type, pivots: Type, b: Type, *, hermitian: bool) -> Type:
    require_square(factors)
    require_same_dtype(factors, b)
    require(
        pivots.dtype == INT32 and pivots.shape == factors.shape[:-1],
        f"needed int32 pivots of shape {factors.shape[:-1]}, given {pivots}",
    )
    require(b.rank >= 2 and factors.shape[-1] == b.shape[-2], f"needed b with as many rows as A, given shape {b.shape}")
    return b.with_shape((*broadcast_shapes(factors.shape[:-2], b.shape[:-2]), *b.shape[-2:]))


@ldl_solve.kernel
@_solved.kernel
def _(factors: Array, pivots: Array, b: Array, *, hermitian: bool) -> Array:
    batch, size = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2]), b.shape[-2]
    if pivots.size and (np.abs(pivots).min() < 1 or np.abs(pivots).max() > size):
        raise ShapeError(f"needed pivots from 1 to {size}, or negative ones, given {pivots.min()} to {pivots.max()}")
    factors = np.broadcast_to(factors, (*batch, size, size))
    pivots = np.broadcast_to(pivots, (*batch, size))
    x = np.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
    for index in np.ndindex(batch):
        _solve(factors[index], pivots[index], x[index], hermitian)
    return x


ldl_solve.no_vjp(_NO_GRADIENT)
ldl_solve.no_onnx(_NO_ONNX)


def _solve(a: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    """Solve in place: `x` is the right-hand side, then the solution."""
    conjugate = np.conj if hermitian else np.asarray
    blocks, k = [], 0
    while k < len(a):
        width = 2 if pivots[k] < 0 and k + 1 < len(a) else 1
        blocks.append(slice(k, k + width))
        k += width
    for block in blocks:
        last, other = block.stop - 1, abs(pivots[block.start]) - 1
        x[[last, other]] = x[[other, last]]
        x[block.stop :] -= a[block.stop :, block] @ x[block]
        x[block] = _solve_block(a[block, block], x[block], hermitian)
    for block in reversed(blocks):
        last, other = block.stop - 1, abs(pivots[block.start]) - 1
        x[block] -= conjugate(a[block.stop :, block]).T @ x[block.stop :]
        x[[last, other]] = x[[other, last]]


def _solve_block(block: Array, x: Array, hermitian: bool) -> Array:
    """Return the solution of the system of a block of D, of which only the lower triangle is stored."""
    if len(block) == 1:
        return np.asarray(x / (block.real if hermitian else block))
    below = block[1, 0]
    above = np.conj(below) if hermitian else below
    first, second = block[0, 0] / above, block[1, 1] / below
    upper, lower = x[0] / above, x[1] / below
    scale = first * second - 1
    return np.stack([(second * upper - lower) / scale, (first * lower - upper) / scale])
