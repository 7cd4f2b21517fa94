"""Rules of the Fourier transform, and of systems of linear equations."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...sides.records import Array
from .estimates import Application, bound_of, together

BUTTERFLY_UNITS = 1 + 4 * math.sqrt(2)
"""Unit roundoffs that a stage of a fast Fourier transform adds, relative to the norm: eta in `dft`."""


def dft(a: Application) -> tuple[Array, ...]:
    """The discrete Fourier transform.

    A fast transform has a stage for each prime factor of the size. For size `2**t`, its result y is off by at most
    `t * eta` of its norm, with `eta = mu + gamma_4 * (sqrt(2) + mu)`, where mu is the error of the weights (Higham,
    *Accuracy and Stability of Numerical Algorithms*, 2nd ed., theorem 24.2). A stage of another factor p sums p terms,
    and adds sqrt(p) for them (`estimates`). Stages mix all elements, so the error is spread evenly over them.
    """
    x, (y,) = a.first, a.outputs
    axes = tuple(axis % x.value.ndim for axis in a.attributes["axes"])
    count = math.prod(x.value.shape[axis] for axis in axes)
    growth = sum(BUTTERFLY_UNITS + (math.sqrt(p) if p > 2 else 0) for axis in axes for p in _factors(y.shape[axis]))
    root_mean_square = np.sqrt(np.square(y).sum(axis=-1, keepdims=True).mean(axis=axes, keepdims=True))
    scale = {"none": 1.0, "root": 1 / math.sqrt(count), "size": 1 / count}[a.attributes["norm"]]
    inherited = np.sqrt(np.square(bound_of(x)).sum(axis=(*axes, -1), keepdims=True)) * scale
    return (together(inherited, growth * a.units.sums * root_mean_square, a.units.results * y),)


def solve(a: Application) -> tuple[Array, ...] | None:
    """The solution of linear systems by LU factorization with partial pivoting.

    The computed x solves a system with another matrix, which is off by at most `gamma_3n * |L| |U|` (Higham, theorem
    9.4); by `3 * sqrt(n)` unit roundoffs instead of 3 n with a high probability (Higham and Mary 2019, theorem 3.4).
    To first order, x is then off by that times `|inverse(a)|` and |x| (Higham, theorem 7.4).
    """
    matrix, right = a.operands
    assert matrix is not None
    assert right is not None
    if a.attributes.get("paired"):
        return None
    return (_error_of_solution(a, matrix.value, bound_of(matrix), a.outputs[0], bound_of(right)),)


def inverse(a: Application) -> tuple[Array, ...] | None:
    """The inverse, whose columns are the solutions of systems with unit vectors."""
    if a.attributes.get("paired"):
        return None
    return (_error_of_solution(a, a.first.value, bound_of(a.first), a.outputs[0], np.zeros(())),)


def solve_triangular(a: Application) -> tuple[Array, ...] | None:
    """The solution by substitution, for a matrix that is off by `gamma_n * |a|` (Higham, theorem 8.5)."""
    matrix, right = a.operands
    assert matrix is not None
    assert right is not None
    if a.attributes.get("paired"):
        return None
    part = np.triu if a.attributes["upper"] else np.tril
    triangle, bound = part(matrix.value), part(bound_of(matrix))
    if a.attributes["unitriangular"]:
        count = triangle.shape[-1]
        triangle = triangle * (1 - np.eye(count)) + np.eye(count)
        bound = bound * (1 - np.eye(count))
    factors = np.sqrt(triangle.shape[-1]) * a.units.sums * np.abs(triangle)
    return (_first_order(triangle, together(factors, bound), a.outputs[0], bound_of(right), a.units.results),)


def _error_of_solution(a: Application, matrix: Array, bound: Array, x: Array, of_right: Array) -> Array:
    factors = 3 * math.sqrt(matrix.shape[-1]) * a.units.sums * product_of_factors(matrix)
    return _first_order(matrix, together(factors, bound), x, of_right, a.units.results)


def _first_order(matrix: Array, of_matrix: Array, x: Array, of_right: Array, unit: float) -> Array:
    """The error of the solution x, for errors of the matrix and of the right-hand side that are independent."""
    squares = np.square(of_matrix) @ np.square(x) + np.square(of_right)
    return together(np.sqrt(np.square(np.linalg.inv(matrix)) @ squares), unit * x)


def product_of_factors(matrix: Array) -> Array:
    """`|L| |U|` of Gaussian elimination with partial pivoting, with the rows in their original order."""
    upper = np.array(matrix)
    count = upper.shape[-1]
    lower = np.zeros_like(upper)
    order = np.broadcast_to(np.arange(count), upper.shape[:-1]).copy()
    for column in range(count):
        pivot = column + np.abs(upper[..., column:, column]).argmax(axis=-1)[..., None]
        for rows in (upper, lower):
            _exchange(rows, column, pivot[..., None])
        _exchange(order[..., None], column, pivot[..., None])
        factors = upper[..., column + 1 :, column] / upper[..., column, column][..., None]
        lower[..., column, column] = 1
        lower[..., column + 1 :, column] = factors
        upper[..., column + 1 :, :] -= factors[..., None] * upper[..., column, None, :]
    product = np.abs(lower) @ np.abs(np.triu(upper))
    return np.take_along_axis(product, np.argsort(order, axis=-1)[..., None], axis=-2)


def _exchange(rows: Array, first: int, second: Array) -> None:
    """Exchange rows in place: one of the same number in every matrix with one of another number in each."""
    kept = rows[..., first : first + 1, :].copy()
    where = np.broadcast_to(second, kept.shape)
    rows[..., first : first + 1, :] = np.take_along_axis(rows, where, axis=-2)
    np.put_along_axis(rows, where, kept, axis=-2)


def _factors(number: int) -> Iterator[int]:
    """The prime factors of a number."""
    factor = 2
    while number > 1:
        while number % factor == 0:
            yield factor
            number //= factor
        factor = factor + 1 if factor * factor <= number else max(number, factor + 1)
