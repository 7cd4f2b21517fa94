"""Numbers that a person wrote: attributes and constants whose value in the candidate is estimated, then tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ....runtime.ir.program import Program
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..rebuilding import INVALID

GRID = (*np.geomspace(1e-13, 1e3, 65),)
"""Values that a positive number is first tried with."""
REFINEMENTS = 60
MAX_DIGITS = 4

Make = Callable[[float], Program]


def likely_numbers(cell: CellProgram, evidence: Evidence, reference_number: float, make: Make) -> Iterator[float]:
    """Yield numbers that may stand in the candidate in place of `reference_number`, the most likely first.

    The number with which the outputs are closest to the candidate's is searched on a grid, refined by golden sections
    (Kiefer, 1953), and rounded to as few digits as a person would have written. None is yielded if any large number
    will do, as in front of a softmax: that is no number that somebody wrote.

    Args:
        cell: the reference's Cell.
        evidence: what the candidate computed.
        reference_number: the reference's number.
        make: returns the Cell's program with another number.
    """

    def distance(number: float) -> float:
        try:
            return evidence.distance(cell, make(number))
        except INVALID:
            return math.inf

    grid = sorted({*GRID, *(-x for x in GRID), 0.0}) if reference_number <= 0 else sorted(GRID)
    distances = [distance(number) for number in grid]
    ends = [distances[-2:], *([distances[:2]] if grid[0] < 0 else [])]
    if any(max(end) <= 1 for end in ends):
        return
    best = int(np.argmin(distances))
    if not math.isfinite(distances[best]) or distances[best] >= distance(reference_number):
        return
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    estimate = _golden_section(distance, low, high)
    for digits in range(1, MAX_DIGITS + 1):
        yield from dict.fromkeys((float(f"{estimate:.{digits - 1}e}"), float(f"{grid[best]:.{digits - 1}e}")))
    yield estimate


def _golden_section(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the place of the smallest value between two points, on a logarithmic scale where they have one sign."""
    logarithmic = low * high > 0
    sign = -1.0 if low < 0 else 1.0
    a, b = sorted((math.log(abs(low)), math.log(abs(high)))) if logarithmic else (low, high)

    def point(t: float) -> float:
        return sign * math.exp(t) if logarithmic else t

    ratio = (math.sqrt(5) - 1) / 2
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = function(point(c)), function(point(d))
    for _ in range(REFINEMENTS):
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = function(point(c))
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = function(point(d))
    return point((a + b) / 2)
