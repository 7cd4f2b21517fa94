"""Rules of determinants, of the Cholesky factor, and of eigenvalues and eigenvectors of symmetric matrices.

Each has a backward error, the change of the matrix for which the computed result would be exact, and a bound to first
order of what such a change does to the result. Sums of n terms count as `sqrt(n)` unit roundoffs (Higham and Mary
2019).
"""

from __future__ import annotations

import math

import numpy as np

from ....runtime.ops.registry import evaluate, get
from ...sides.records import Array
from .estimates import Application, bound_of, together
from .transforms import product_of_factors


def determinant(a: Application) -> tuple[Array, ...] | None:
    """The product of the pivots of an LU factorization: its derivative is the matrix of cofactors."""
    error = _error_of_elimination(a)
    if error is None:
        return None
    (cofactors,) = evaluate(get("cofactors"), [a.first.value], {"paired": False})
    (y,) = a.outputs
    inherited = np.sqrt(np.square(cofactors * error).sum(axis=(-2, -1)))
    return (together(inherited, math.sqrt(a.first.value.shape[-1]) * a.units.sums * y, a.units.results * y),)


def log_determinant(a: Application) -> tuple[Array, ...] | None:
    """The sum of the logarithms of the pivots: the derivative is the transposed inverse. The sign comes first."""
    error = _error_of_elimination(a)
    if error is None or not np.isfinite(a.outputs[1]).all():
        return None
    inverse = np.linalg.inv(a.first.value).swapaxes(-1, -2)
    inherited = np.sqrt(np.square(inverse * error).sum(axis=(-2, -1)))
    rounding = a.units.sums * math.sqrt(a.first.value.shape[-1]) * np.maximum(np.abs(a.outputs[1]), 1)
    return np.zeros_like(a.outputs[0]), together(inherited, rounding, a.units.results * a.outputs[1])


def cholesky(a: Application) -> tuple[Array, ...] | None:
    """The lower triangular factor L of a matrix that is off by `gamma_n+1 * |L| |L.T|` (Higham, theorem 10.3).

    A change E of the matrix changes L by `L @ lower(inverse(L) @ E @ inverse(L).T)`, where `lower` takes the lower
    triangle with half of the diagonal (Stewart, "On the perturbation of LU, Cholesky, and QR factorizations", 1993).
    """
    if a.attributes.get("paired"):
        return None
    (factor,) = a.outputs
    size = factor.shape[-1]
    backward_error = math.sqrt(size + 1) * a.units.sums * (np.abs(factor) @ np.abs(factor).swapaxes(-1, -2))
    below = np.tril(bound_of(a.first))  # the upper triangle isn't read
    error = together(backward_error, np.maximum(below, below.swapaxes(-1, -2)))
    inverse = np.square(np.linalg.inv(factor))
    # both elements of a pair have the same error, which counts twice
    squares = np.tril(2 * inverse @ np.square(error) @ inverse.swapaxes(-1, -2)) * (1 - 0.75 * np.eye(size))
    return (together(np.sqrt(np.square(factor) @ squares), a.units.results * factor),)


def eigh(a: Application) -> tuple[Array, ...] | None:
    """Eigenvalues of symmetric matrices, which change by at most the norm of the change (Weyl), and eigenvectors.

    A vector changes by the others, each in proportion to the inverse of the distance of their eigenvalues: of vectors
    with equal values nothing is known.
    """
    if a.attributes.get("paired"):
        return None
    values, vectors = a.outputs
    error = _error_of_rotations(a)
    distances = values[..., None, :] - values[..., :, None]
    shares = 1 / np.where(np.eye(values.shape[-1], dtype=bool), np.inf, distances)
    turned = error[..., None, None] * np.sqrt(np.square(vectors) @ np.square(shares))
    return (
        together(np.broadcast_to(error[..., None], values.shape), a.units.results * values),
        together(turned, a.units.results * vectors),
    )


def _error_of_elimination(a: Application) -> Array | None:
    """The change of a matrix for which its computed LU factorization is exact, as in `transforms.solve`."""
    if a.attributes.get("paired"):
        return None
    matrix = a.first.value
    factors = 3 * math.sqrt(matrix.shape[-1]) * a.units.sums * product_of_factors(matrix)
    error = together(factors, bound_of(a.first))
    return error if np.isfinite(error).all() else None


def _error_of_rotations(a: Application) -> Array:
    """The norm of the change of a matrix for which what orthogonal transformations make of it is exact."""
    matrix = a.first.value
    norm = np.sqrt(np.square(matrix).sum(axis=(-2, -1)))
    inherited = np.sqrt(np.square(bound_of(a.first)).sum(axis=(-2, -1)))
    return together(math.sqrt(matrix.shape[-1]) * 3 * a.units.sums * norm, inherited)
