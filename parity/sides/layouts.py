"""A tensor laid out otherwise: the same elements with the axes in another order, or in another shape."""

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
    """How a tensor of the module's stands in the Cell.

    Attributes:
        axes: order in which the Cell has the module's axes.
        before: shape of the module's tensor.
        after: shape of the Cell's.
    """

    axes: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def there(self, array: Array) -> Array:
        """The Cell's tensor, from the module's."""
        return array.transpose(self.axes).reshape(self.after)

    def back(self, array: Array) -> Array:
        """The module's tensor, from the Cell's; one of another shape stays as it is."""
        if array.shape != self.after:
            return array
        return array.reshape([self.before[axis] for axis in self.axes]).transpose(tuple(np.argsort(self.axes)))


def alike(reference: Array, other: Array) -> bool:
    """Whether two tensors are the same, up to half the digits of their dtypes."""
    return reference.shape == other.shape and _close(reference, other, _tolerance(reference, other))


def layout_of(other: Array, reference: Array) -> Layout | None:
    """How `other` comes of `reference` by moving elements alone; None if it doesn't, or is the same as it is."""
    if reference.size != other.size or reference.size == 0 or reference.ndim > MAX_AXES:
        return None
    tolerance = _tolerance(reference, other)
    ordered = np.sort(reference, axis=None), np.sort(other, axis=None)
    if not _close(*ordered, tolerance) or (reference.shape == other.shape and _close(reference, other, tolerance)):
        return None
    for axes in itertools.permutations(range(reference.ndim)):
        layout = Layout(axes, reference.shape, other.shape)
        if _close(layout.there(reference), other, tolerance):
            return layout
    return None


def _tolerance(*arrays: Array) -> float:
    floating = [np.finfo(a.dtype).eps for a in arrays if a.dtype.kind == "f"]
    if not floating or not all(is_floating(a.dtype) for a in arrays):
        return 0.0
    largest = max((float(np.max(np.abs(a), initial=0.0)) for a in arrays), default=0.0)
    return math.sqrt(max(floating)) * largest if math.isfinite(largest) else 0.0


def _close(one: Array, other: Array, tolerance: float) -> bool:
    if tolerance == 0.0:
        return bool(np.array_equal(one, other))
    return bool(np.all(np.abs(one.astype(np.float64) - other.astype(np.float64)) <= tolerance))
