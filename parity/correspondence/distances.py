"""How far apart two tensors are, relative to their size."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np

Array = np.ndarray[Any, Any]
EXACT = 1e-10
"""Distance of values that needn't be replaced by the module's for what follows to agree."""
ROUNDED = 3e-7
"""Distance of values that differ only because weights were rounded to float32."""
Arrays = list[Array]
"""One array for each sample."""
Name = TypeVar("Name", bound=Hashable)


class EqualArrays(Generic[Name]):
    """Finds arrays that are equal but for `EXACT`; only those of one shape and norm are compared.

    Arrays that are so near have norms that are as near: the difference of norms is at most the norm of the difference.

    Args:
        arrays: the arrays, each with what it is called.
    """

    def __init__(self, arrays: Iterable[tuple[Name, Arrays]]) -> None:
        self._of_shape: dict[tuple[int, ...], list[tuple[Name, Arrays, float]]] = {}
        for name, samples in arrays:
            first = samples[0]
            self._of_shape.setdefault(first.shape, []).append((name, samples, _norm(first)))

    def find(self, truth: Arrays) -> list[Name]:
        """Return what those are called that are equal to the truth, in order."""
        norm = _norm(truth[0])
        likely = (  # nothing is known where a norm isn't finite
            (name, arrays)
            for name, arrays, other in self._of_shape.get(truth[0].shape, [])
            if not abs(norm - other) > 2 * EXACT * norm
        )
        return [name for name, arrays in likely if distance(arrays, truth) <= EXACT]


def _norm(array: Array) -> float:
    return float(np.linalg.norm(array)) if array.dtype.kind == "f" else np.nan


def distance(arrays: Arrays, truth: Arrays) -> float:
    """Return how far arrays are from the truth, relative to its size, in the worst sample; infinite if not alike."""
    worst = 0.0
    for array, expected in zip(arrays, truth, strict=True):
        if array.shape != expected.shape or (array.dtype.kind == "f") != (expected.dtype.kind == "f"):
            return np.inf
        if array.dtype.kind != "f":
            if array.dtype.kind == "c" or not np.array_equal(array, expected):
                return np.inf
            continue
        size = float(np.linalg.norm(expected))
        apart = float(np.linalg.norm(array - expected)) if np.isfinite(size) else np.inf
        if not np.isfinite(apart):
            apart = 0.0 if np.array_equal(array, expected, equal_nan=True) else np.inf
        worst = max(worst, apart / size if size else (0.0 if apart == 0 else np.inf))
    return worst
