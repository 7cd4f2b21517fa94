"""Numbers that explain updates: estimated by least squares, and rounded to what a person would have written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ....sides.records import Array

ITERATIONS = 40
DIGITS = 7
"""The most significant digits of a number that a person would have written."""
CLOSE = 1e-13
LEAST_GAIN = 1e-3
"""The share of the sum of squares by which an iteration must lower it."""


def least_squares(residuals: Callable[[Array], Array], start: Array) -> Array:
    """Return the numbers that minimize a sum of squares, from a start (Levenberg 1944, Marquardt 1963).

    Derivatives are differences. `residuals` may return NaN where numbers are out of range.
    """
    x: Array = np.asarray(start, np.float64)
    r = residuals(x)
    best, damping = _square(r), 1e-6
    for _ in range(ITERATIONS):
        jacobian = np.stack([_derivative(residuals, x, r, index) for index in range(x.size)], axis=1)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ r
        if not np.all(np.isfinite(normal)):
            break
        scale = np.where(np.diag(normal) > 0, np.diag(normal), 1.0)  # a number may have no effect
        step = -np.linalg.solve(normal + damping * np.diag(scale), slope)
        r_next = residuals(x + step)
        if _square(r_next) < best:
            gain = 1 - _square(r_next) / best
            x, r, best, damping = x + step, r_next, _square(r_next), damping * 0.1
            if gain < LEAST_GAIN or np.all(np.abs(step) <= CLOSE * np.abs(x)):
                break
        else:
            damping *= 10
            if damping > 1e8:
                break
    return x


def _square(r: Array) -> float:
    total = float(r @ r)
    return total if np.isfinite(total) else np.inf


def _derivative(residuals: Callable[[Array], Array], x: Array, r: Array, index: int) -> Array:
    moved = x.copy()
    moved[index] += 1e-7 * max(abs(x[index]), 1e-3)
    return np.asarray((residuals(moved) - r) / (moved[index] - x[index]))


def plain_numbers(value: float) -> Iterator[float]:
    """Yield 0, the numbers close to an estimate that a person would have written, short ones first, and the estimate.

    Which of them is the number, only a replay can tell.
    """
    numbers = {0.0}
    yield 0.0
    for digits in range(1, DIGITS + 1):
        rounded = [float(f"{value:.{digits}g}")]
        if 0.5 < value < 1:  # 0.999
            rounded.append(float(f"{1 - float(f'{1 - value:.{digits}g}'):.12g}"))
        if value and abs(value) < 1:  # 1/3
            rounded.append(1 / float(f"{1 / value:.{digits}g}"))
        for number in rounded:
            if number not in numbers and abs(number - value) <= 1e-2 * abs(value):
                numbers.add(number)
                yield number
    yield value
