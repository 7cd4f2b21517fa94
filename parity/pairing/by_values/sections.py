"""Values of a file that hold several tensors of a module side by side along an axis, of one size or of several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.types import Value
from ...correspondence.distances import EXACT, Arrays, distance
from ...correspondence.layouts import FEWEST_ELEMENTS, find_layout
from ...sides.records import Array
from .crossings import Crossing
from .file_values import FileValues

MOST_SECTIONS = 64
"""The most sections into which an axis is divided."""


@dataclass(frozen=True)
class Cut:
    """The division of a value along an axis.

    Attributes:
        axis: the axis.
        ends: where its sections end, in order; the last one is the size of the axis.
    """

    axis: int
    ends: tuple[int, ...]

    def start(self, number: int) -> int:
        """Where a section starts."""
        return self.ends[number - 1] if number else 0

    def size(self, number: int) -> int:
        """The size of a section."""
        return self.ends[number] - self.start(number)

    def section(self, array: Array, number: int) -> Array:
        """Return a section of an array."""
        return np.take(array, range(self.start(number), self.ends[number]), self.axis)

    def slice(self, number: int) -> dict[str, tuple[int, ...]]:
        """Return the attributes of the op that takes a section."""
        return {"starts": (self.start(number),), "stops": (self.ends[number],), "steps": (1,), "axes": (self.axis,)}

    def along(self, axis: int, size: int) -> Cut | None:
        """The same division of another axis, of another size perhaps; None if its sections aren't whole there."""
        ends = [end * size / self.ends[-1] for end in self.ends]
        return Cut(axis, tuple(map(int, ends))) if all(end.is_integer() for end in ends) else None


def find_cuts(file: FileValues, missing: Sequence[Crossing], values: Sequence[Value]) -> dict[Value, Cut]:
    """Return the values of which sections are different tensors, with how they are divided.

    A wrong value is what it is replaced with: a tensor of which the module computes the sections.

    Args:
        file: the values of the program.
        missing: the tensors that aren't values themselves.
        values: the values that may hold several of them.
    """
    cuts: dict[Value, Cut] = {}
    free = list(missing)
    in_order = sorted(values, key=file.rank.__getitem__)
    # an axis of its own outlives changes of layout, through which sections of another axis can't be followed
    for stacked, value in itertools.product((True, False), in_order):
        arrays = file.current(value)
        for axis in range(arrays[0].ndim):
            held = _held(arrays, axis, free, stacked=stacked) if value not in cuts else {}
            if len(held) > 1:
                cuts[value] = Cut(axis, _ends(list(held), arrays[0].shape[axis]))
                free = [tensor for tensor in free if tensor not in held.values()]
    return {value: cut for value, cut in cuts.items() if len(cut.ends) <= MOST_SECTIONS}


def _held(arrays: Arrays, axis: int, tensors: Sequence[Crossing], *, stacked: bool) -> dict[tuple[int, int], Crossing]:
    """Return the tensors that arrays hold along an axis, by where they start and end; none overlaps another.

    Stacked ones are all those of size 1 along the axis.
    """
    array = arrays[0]
    count = array.shape[axis]
    if count < 2 or not array.size:
        return {}
    each = array.size // count
    sizes = {
        t: t.arrays[0].size // each
        for t in tensors
        if t.arrays[0].size >= FEWEST_ELEMENTS and not t.arrays[0].size % each
    }
    possible = {t: size for t, size in sizes.items() if (size == 1 if stacked else size < count)}
    if len(possible) < 2:
        return {}
    others = tuple(number for number in range(array.ndim) if number != axis)
    sums = np.concatenate([[0.0], np.cumsum(np.square(array).sum(others))])
    if not np.isfinite(sums[-1]):
        return {}
    held: dict[tuple[int, int], Crossing] = {}
    for tensor, size in possible.items():
        for start, end in _likely_sections(sums, tensor.arrays[0], size):
            is_free = all(end <= first or last <= start for first, last in held)
            if is_free and _is_section(arrays, axis, start, end, tensor):
                held[start, end] = tensor
                break
    return held


def _likely_sections(sums: Array, tensor: Array, size: int) -> Iterator[tuple[int, int]]:
    """Yield where sections of a size have the norm of a tensor, given the sums of squares up to each place."""
    square = float(np.square(tensor).sum())
    for start in np.flatnonzero(np.abs(sums[size:] - sums[:-size] - square) <= EXACT * max(square, sums[-1])):
        yield int(start), int(start) + size


def _is_section(arrays: Sequence[Array], axis: int, start: int, end: int, tensor: Crossing) -> bool:
    sections = [np.take(array, range(start, end), axis) for array in arrays]
    reshaped = [section.reshape(array.shape) for section, array in zip(sections, tensor.arrays, strict=True)]
    return distance(reshaped, tensor.arrays) <= EXACT or find_layout(sections, tensor.arrays) is not None


def _ends(held: Sequence[tuple[int, int]], count: int) -> tuple[int, ...]:
    """Return where the sections of an axis end: all of the size of those held, or these and what is between."""
    sizes = {end - start for start, end in held}
    (size,) = sizes if len(sizes) == 1 else (0,)
    if size and not count % size and all(not start % size for start, _ in held):
        return tuple(range(size, count + 1, size))
    return tuple(sorted(({place for bounds in held for place in bounds} | {count}) - {0}))
