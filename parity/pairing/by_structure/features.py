"""Features of two values that are the same, in another order: channels that were concatenated the other way round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...sides.records import Array

CLOSE = 1e-5
"""Relative distance of the sums of features that are the same."""

Arrays = Sequence[Array]
"""One array for each sample."""


def same_features(arrays: Arrays, axis: int, others: Arrays, axis_of_others: int) -> Array | None:
    """Return for each feature of a value the feature of another one that has its numbers; None if that isn't clear."""
    sums, other_sums = _sums(arrays, axis), _sums(others, axis_of_others)
    if sums.shape != other_sums.shape:
        return None
    bound = CLOSE * (np.abs(other_sums).max(axis=0) + 1e-300)
    if np.all(np.abs(sums - other_sums) <= bound):
        return np.arange(len(sums))
    orders = [np.lexsort(np.round(rows / bound / 10).T) for rows in (sums, other_sums)]
    if not np.all(np.abs(sums[orders[0]] - other_sums[orders[1]]) <= bound):
        return None
    order = np.empty(len(sums), np.int64)
    order[orders[0]] = orders[1]
    return order


def _sums(arrays: Arrays, axis: int) -> Array:
    columns = []
    for array in arrays:
        rows = np.moveaxis(np.asarray(array, np.float64), axis, 0).reshape(array.shape[axis], -1)
        rows = np.where(np.isfinite(rows), rows, 0.0)
        columns += [rows.sum(1), (rows * rows).sum(1), (rows**3).sum(1)]
    return np.stack(columns, axis=1)
