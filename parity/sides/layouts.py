"""Tensor layouts: the same elements with the axes in another order, or in another shape."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from ...runtime.ir.types import is_floating
from .records import Array

MAX_AXES = 6  # whose orders are tried


@dataclass(frozen=True)
class Layout:
    """The layout of a module's tensor in the Cell.

    Attributes:
        axes: order of the module's axes in the Cell.
        before: shape of the module's tensor.
        after: shape of the Cell's tensor.
    """

    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def to_cell(self, array: Array) -> Array:
        """Return the Cell's tensor, from the module's."""
        return array.transpose(self.axes).reshape(self.after)

    def to_module(self, array: Array) -> Array:
        """Return the module's tensor, from the Cell's; a tensor of another shape is returned unchanged."""
        if array.shape != self.after:
            return array
        return array.reshape([self.before[axis] for axis in self.axes]).transpose(tuple(np.argsort(self.axes)))


def alike(reference: Array, other: Array) -> bool:
    """Whether two tensors are equal up to half the digits of their dtypes."""
    return reference.shape == other.shape and _close(reference, other, _tolerance(reference, other))


def layout_of(other: Array, reference: Array) -> Layout | None:
    """Return the layout that turns `reference` into `other`; None if there is none, or the two are equal already."""
    if reference.size != other.size or reference.size == 0 or reference.ndim > MAX_AXES:
        return None
    tolerance = _tolerance(reference, other)
    ordered = np.sort(reference, axis=None), np.sort(other, axis=None)
    if not _close(*ordered, tolerance) or (reference.shape == other.shape and _close(reference, other, tolerance)):
        return None
    for axes in itertools.permutations(range(reference.ndim)):
        layout = Layout(axes, reference.shape, other.shape)
        if _close(layout.to_cell(reference), other, tolerance):
            return layout
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
