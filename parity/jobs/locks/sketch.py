"""`sketch`: a few numbers that stand for a tensor, and change by as much as its elements do."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from ....runtime.ir.types import is_floating
from ...sides.records import Array
from .contents import ELEMENTS, PROJECTIONS, SKETCH_SIZE

_BLOCK = 2**20


def sketch(array: Array) -> Array:
    """Return numbers that stand for a tensor: some of its elements, and two random projections.

    A projection is the sum of all elements with random signs, divided by the square root of their number. It is about
    as large as one element, and a change of any element changes it (Alon, Matias and Szegedy, 1996). Elements that
    aren't finite count as 0 there. Elements and signs depend on the number of elements alone.

    Args:
        array: a tensor of any shape.

    Returns:
        For floating-point numbers `float64[8]`; for others `int64[4]`, a checksum.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if not is_floating(flat.dtype):
        digest = hashlib.sha256(flat.astype(np.int64).tobytes()).digest()
        return np.frombuffer(digest, "<i8").copy()
    if not flat.size:
        return np.zeros(SKETCH_SIZE)
    elements = flat[places(flat.size)].astype(np.float64)
    random, sums = np.random.default_rng(flat.size), np.zeros(PROJECTIONS)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        signs = random.integers(0, 2, size=(PROJECTIONS, block.size), dtype=np.int8) * 2.0 - 1.0
        sums += signs @ np.where(np.isfinite(block), block, 0.0)
    return np.concatenate([elements, sums / math.sqrt(flat.size)])


def places(size: int) -> Array:
    """Return the places of the elements that stand for a tensor of `size` elements, at least 1."""
    return np.random.default_rng(size).integers(size, size=ELEMENTS)


def bits(array: Array) -> str:
    """Return a digest of a tensor's dtype, shape and bits."""
    head = f"{array.dtype.name}{list(array.shape)}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
