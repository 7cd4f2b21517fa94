"""Values of one network among those of another one, in any layout.

Two values agree if the sums of their elements, of their squares and of their cubes agree on all samples. No layout
changes these: neither reshapes, nor exchanged axes, nor another order of rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ....runtime.ir.types import Value
from ...sides.records import Array

CLOSE = 1e-5
"""Relative distance of sums that agree: another eps, or an angle in float32, moves a value less."""

Arrays = Sequence[Array]
"""One array for each sample."""


def moments(arrays: Iterable[Array]) -> Array:
    """Return the sums of a value on each sample: of sizes, elements, squares and cubes, and the sizes of these."""
    rows = []
    for array in arrays:
        flat = np.asarray(array, np.float64).reshape(-1)
        finite = flat[np.isfinite(flat)]
        sizes = np.abs(finite)
        squares = finite * finite
        rows.append(
            (sizes.sum(), finite.sum(), squares.sum(), (squares * finite).sum(), (squares * sizes).sum(), len(finite))
        )
    return np.asarray(rows, np.float64)


def agree(first: Array, second: Array) -> bool:
    """Whether the moments of two values are equal up to rounding."""
    bound = CLOSE * first
    apart = np.abs(first - second)
    return bool(
        np.array_equal(first[:, 5], second[:, 5])
        and np.all(apart[:, 0] <= bound[:, 0])
        and np.all(apart[:, 1] <= bound[:, 0])
        and np.all(apart[:, 2] <= bound[:, 2])
        and np.all(apart[:, 3] <= bound[:, 4])
    )


class ValueIndex:
    """The values of a network that depend on its inputs, found by their numbers.

    Args:
        values: floating-point values on each sample.
    """

    def __init__(self, values: Mapping[Value, Arrays]) -> None:
        self._groups: list[list[Value]] = []
        self._moments: list[Array] = []
        keys: list[tuple[float, int]] = []
        order: list[tuple[float, Value, Array]] = []
        for value, arrays in values.items():
            of_value = moments(arrays)
            if of_value[0, 0] > 0:
                order.append((float(of_value[0, 2]), value, of_value))
        order.sort(key=lambda item: item[0])
        for size, value, of_value in order:
            if self._moments and agree(self._moments[-1], of_value):
                self._groups[-1].append(value)
                continue
            self._groups.append([value])
            self._moments.append(of_value)
            keys.append((size, len(self._groups) - 1))
        self._sizes = [size for size, _ in keys]

    def find(self, arrays: Arrays) -> list[Value]:
        """Return the values that agree with arrays; none if there are none."""
        of_value = moments(arrays)
        size = float(of_value[0, 2])
        if not size:
            return []
        margin = 2 * CLOSE * size
        start, stop = bisect_left(self._sizes, size - margin), bisect_right(self._sizes, size + margin)
        return [
            v for number in range(start, stop) if agree(self._moments[number], of_value) for v in self._groups[number]
        ]
