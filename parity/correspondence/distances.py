"""How far apart two tensors are, relative to their size."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EXACT = 1e-10
"""Distance of values that needn't be replaced by the module's for what follows to agree."""
ROUNDED = 3e-7
"""Distance of values that differ only because weights were rounded to float32."""
Arrays = list[Array]
"""One array for each sample."""


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
