"""Moments of a tensor and of its slices along each axis: numbers that don't depend on the order of the elements.

The sums of the first four powers of a slice's elements are the same in whatever order it has them, transposed or
permuted. So a slice is found among others by its moments, and only then are values compared. All are found in a single
pass over the rows of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrangements import Array
from ..readers.tensor import StoredTensor
from .precisions import relative_error

POWERS = 4
CACHED = 1 << 18
"""Bytes in float32 of the rows that are added up at a time: their powers stay in the processor's cache."""
_SENSITIVITY = np.array([1.0, 2.0, 12.0, 40.0])
"""How many times the relative error of an element each feature may be off, about."""
NEAR = 6.0
"""The largest difference of features, in errors of an element, of slices that may be the same."""
EXACT = 1e-11
"""The error of features of equal numbers, which are added in another order."""


@dataclass(frozen=True)
class Lines:
    """Slices of equal size: those of a tensor along an axis, or tensors of one size.

    Attributes:
        sums: the sums of the powers 1 to 4 of the elements of each slice, float64, (count, 4).
        length: the number of elements of a slice.
    """

    sums: Array
    length: int

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def is_zero(self) -> Array:
        """Whether all elements of a slice are zero, bool (count,)."""
        return np.asarray(self.sums[:, 1] == 0)

    @property
    def features(self) -> Array:
        """Coordinates in which a relative error `e` of the elements moves a slice by about `e`, float64, (count, 4).

        They are the mean by the root mean square, the logarithm of the latter, and the third and fourth moment by its
        powers, each times the root of the number of elements. Slices of zeros are at zero.
        """
        mean_square = self.sums[:, 1] / self.length
        scale = np.sqrt(np.where(mean_square > 0, mean_square, 1.0))
        count = np.sqrt(self.length)
        third, fourth = (self.sums[:, power - 1] / self.length / scale**power for power in (3, 4))
        mean = self.sums[:, 0] / self.length / scale
        columns = np.stack([mean * count, np.log(scale) * 2 * count, third * count, fourth * count], axis=1)
        return np.asarray(np.where(self.is_zero[:, None], 0.0, columns / _SENSITIVITY))

    @property
    def scale_free_features(self) -> Array:
        """The features that a factor doesn't change, with the sign of the mean positive, float64, (count, 3)."""
        features = self.features[:, [0, 2, 3]]
        signs = np.where(features[:, :1] < 0, -1.0, 1.0)
        return np.asarray(features * np.concatenate([signs, signs, np.ones_like(signs)], axis=1))


@dataclass(frozen=True)
class Sketch:
    """What is known of a tensor after one pass over its values.

    Attributes:
        tensor: the tensor.
        whole: the tensor as a single slice.
        axes: its slices along each axis.
        smallest: its smallest element.
        largest: its largest element.
        not_finite: the number of elements that are NaN or infinite; these count as zeros in all sums.
    """

    tensor: StoredTensor
    whole: Lines
    axes: Sequence[Lines]
    smallest: float
    largest: float
    not_finite: int

    @property
    def is_constant(self) -> bool:
        """Whether all elements are equal."""
        return self.not_finite == 0 and self.smallest == self.largest

    @property
    def error(self) -> float:
        """The relative error of its elements."""
        return relative_error(self.tensor.dtype)


def sketch(tensor: StoredTensor) -> Sketch:
    """Read a tensor once and return its moments; raise `UsageError` if it can't be read."""
    shape = tensor.shape or (1,)
    sums = [np.zeros((size, POWERS)) for size in shape]
    smallest, largest, not_finite = np.inf, -np.inf, 0
    for start, rows in tensor.chunks(CACHED):
        values = rows.reshape(len(rows), *shape[1:]).astype(np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            not_finite += int(values.size - finite.sum())
            values = np.where(finite, values, 0.0)
        if values.size:
            smallest, largest = min(smallest, float(values.min())), max(largest, float(values.max()))
        for axis, part in enumerate(sums_of_powers(values)):
            sums[axis][start if axis == 0 else 0 :][: len(part)] += part
    total = sums[0].sum(axis=0, keepdims=True)
    size = tensor.size
    lines = [Lines(of_axis, size // max(1, count)) for of_axis, count in zip(sums, shape, strict=True)]
    return Sketch(tensor, Lines(total, size), lines, smallest, largest, not_finite)


def sums_of_powers(values: Array) -> list[Array]:
    """Return for each axis the sums of the powers 1 to 4 of the elements of each slice along it, (count, 4)."""
    sums = [np.empty((size, POWERS)) for size in values.shape]
    power = values
    for number in range(POWERS):
        power = power * values if number else values
        for axis, of_axis in enumerate(sums):
            of_axis[:, number] = power.sum(axis=tuple(other for other in range(values.ndim) if other != axis))
    return sums


def tolerance(error: float) -> float:
    """Return the largest difference of the features of slices whose elements differ by a relative error."""
    return NEAR * error + EXACT


def nearest(features: Array, others: Array, most: float) -> Array:
    """Return for each row the number of the nearest of other rows, which is no farther than `most` along any axis.

    Args:
        features: coordinates, (count, n).
        others: the coordinates among which they are sought, (other_count, n).
        most: the largest distance.

    Returns:
        The numbers, int64 (count,); -1 where none is near.
    """
    result = np.full(len(features), -1)
    if not len(features) or not len(others):
        return result
    axis = int(np.argmax(np.ptp(others, axis=0)))
    order = np.argsort(others[:, axis], kind="stable")
    ordered = others[order]
    first = np.searchsorted(ordered[:, axis], features[:, axis] - most, "left")
    last = np.searchsorted(ordered[:, axis], features[:, axis] + most, "right")
    for number in range(len(features)):
        window = ordered[first[number] : last[number]]
        if len(window):
            distances = np.abs(window - features[number]).max(axis=1)
            best = int(np.argmin(distances))
            if distances[best] <= most:
                result[number] = order[first[number] + best]
    return result


class WholeIndex:
    """Tensors by their moments.

    Args:
        sketches: the tensors.
    """

    def __init__(self, sketches: Iterable[Sketch]) -> None:
        self._by_size: dict[int, list[Sketch]] = {}
        for of_tensor in sketches:
            self._by_size.setdefault(of_tensor.tensor.size, []).append(of_tensor)
        self._ordered: dict[int, tuple[Array, list[Sketch]]] = {}

    def of_size(self, size: int) -> Sequence[Sketch]:
        """Return the tensors with so many elements."""
        return self._by_size.get(size, [])

    def find(self, target: Sketch, most: float) -> list[Sketch]:
        """Return the tensors with as many elements and features no farther than `most` from the target's."""
        size = target.tensor.size
        if size not in self._by_size:
            return []
        if size not in self._ordered:
            by_scale = sorted(self._by_size[size], key=lambda s: float(s.whole.features[0, 1]))
            self._ordered[size] = np.concatenate([s.whole.features for s in by_scale]), by_scale
        features, ordered = self._ordered[size]
        wanted = target.whole.features[0]
        first = np.searchsorted(features[:, 1], wanted[1] - most, "left")
        window = features[first : np.searchsorted(features[:, 1], wanted[1] + most, "right")]
        near = np.flatnonzero(np.abs(window - wanted).max(axis=1) <= most)
        return [ordered[first + int(number)] for number in near]
