"""Tensors of two frameworks in any dtypes: equal up to half the digits, as they are or in another layout."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ...runtime.ir.types import is_floating
from .distances import Array
from .layouts import MOST_AXES, Layout


def alike(reference: Array, other: Array) -> bool:
    """Whether two tensors are equal up to half the digits of their dtypes."""
    return reference.shape == other.shape and _close(reference, other, _tolerance(reference, other))


def layout_of(other: Array, reference: Array) -> Layout | None:
    """Return how to read `reference` from `other`; None if there is no such layout, or the two are equal already."""
    if reference.size != other.size or reference.size == 0 or reference.ndim > MOST_AXES:
        return None
    tolerance = _tolerance(reference, other)
    ordered = np.sort(reference, axis=None), np.sort(other, axis=None)
    if not _close(*ordered, tolerance) or (reference.shape == other.shape and _close(reference, other, tolerance)):
        return None
    for axes in itertools.permutations(range(reference.ndim)):
        written = Layout(reference.shape, reference.shape, axes, other.shape)
        if _close(written.read(reference), other, tolerance):
            return written.inverse
    return None


def _tolerance(*arrays: Array) -> float:
    floating = [np.finfo(a.dtype).eps for a in arrays if a.dtype.kind == "f"]
    if not floating or not all(is_floating(a.dtype) for a in arrays):
        return 0.0
    largest = max((float(np.max(np.abs(a), initial=0.0)) for a in arrays), default=0.0)
    return math.sqrt(max(floating)) * largest if math.isfinite(largest) else 0.0


def _close(array: Array, other: Array, tolerance: float) -> bool:
    if tolerance == 0.0:
        return bool(np.array_equal(array, other))
    return bool(np.all(np.abs(array.astype(np.float64) - other.astype(np.float64)) <= tolerance))
