"""Numbers that are equal for arrays with the same elements, in any order."""

from __future__ import annotations

import numpy as np

from ...sides.records import Array

FEW_NUMBERS = 1 << 20
"""Numbers that are looked at together, so that copies of them take little memory."""


def fingerprint(array: Array) -> bytes:
    """Return a text that is equal for arrays with the same float32 numbers, in any order and shape."""
    flat = array.reshape(1, -1)
    parts = [row_fingerprints(flat[:, start : start + FEW_NUMBERS]) for start in range(0, array.size, FEW_NUMBERS)]
    return b"%d " % array.size + np.sum(parts, dtype=np.uint64).tobytes()


def row_fingerprints(matrix: Array, weights: Array | None = None) -> Array:
    """Return a number for each row that is equal for rows with the same float32 numbers, in any order."""
    bits = (np.ascontiguousarray(matrix, np.float32) + 0.0).view(np.uint32).astype(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(15))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray((mixed if weights is None else mixed * weights).sum(axis=1, dtype=np.uint64))
