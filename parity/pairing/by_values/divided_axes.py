"""Parts of a tensor that a file has in other layouts: queries, keys and values of each head in turn, or of all heads.

A convolution over single pixels returns all of them as channels; the file has layers, and channels last. Which rows of
the axis are of one part is not told: with h heads, each part has every h-th block of rows.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.types import Value
from ...correspondence.distances import ROUNDED, Array, Arrays, distance
from ...correspondence.layouts import FEWEST_ELEMENTS, Layout, find_layout
from .crossings import Crossing
from .file_values import FileValues

MOST_PARTS = 4
MOST_HEADS = 128
MOST_STACKED = 64
"""The most parts of which each is at one place along an axis, such as heads, experts or steps."""
SIMILAR = 1e-6
"""How far norms of equal tensors may be apart, relative to one of them."""


@dataclass(frozen=True)
class Division:
    """The values of a file that are parts of a tensor.

    Attributes:
        parts: the values, in order, each with the layout in which it is a part of the tensor, whose axis is divided.
        axis: the axis along which the parts, with these layouts, are joined.
    """

    parts: Sequence[tuple[Value, Layout]]
    axis: int


class DivisionFinder:
    """Finds the values that are parts of a tensor in another layout.

    Args:
        file: the values of the file's program.
        of_shape: those that are floating-point numbers of known sizes, by shape.
    """

    def __init__(self, file: FileValues, of_shape: Mapping[tuple[int, ...], Sequence[Value]]) -> None:
        self.file = file
        self.of_size: dict[int, list[tuple[float, int, Value]]] = {}
        for shape, values in of_shape.items():
            for value in values:
                norm = float(np.linalg.norm(file.values[value][0]))
                if math.isfinite(norm):
                    self.of_size.setdefault(math.prod(shape), []).append((norm, file.rank[value], value))
        for entries in self.of_size.values():
            entries.sort(key=lambda entry: entry[:2])

    def find(self, tensor: Crossing, axis: int, taken: Collection[Value]) -> Division | None:
        """Return the parts of a tensor along an axis that are none of the values taken; None if there are none."""
        size, total = tensor.shape[axis], tensor.arrays[0].size
        if total < 2 * FEWEST_ELEMENTS:
            return None
        others = tuple(number for number in range(len(tensor.shape)) if number != axis)
        squares = np.square(tensor.arrays[0]).sum(others)
        for count in (n for n in range(2, MOST_PARTS + 1) if size % n == 0 and total // n in self.of_size):
            for heads in (n for n in range(1, min(size // count, MOST_HEADS) + 1) if size // count % n == 0):
                norms = np.sqrt(squares.reshape(heads, count, -1).sum((0, 2)))
                parts = self._parts(tensor, axis, heads, norms, taken)
                if parts is not None:
                    return Division(parts, axis + (heads > 1))
        return None

    def stacked(self, tensor: Crossing, axis: int, taken: Collection[Value]) -> Division | None:
        """Return the values, in any shape, that are a tensor at each place along an axis, and none of those taken."""
        count, size = tensor.shape[axis], tensor.arrays[0].size // max(tensor.shape[axis], 1)
        if not 2 <= count <= MOST_STACKED or size not in self.of_size:
            return None
        parts: dict[Value, Layout] = {}
        for place in range(count):
            pieces = [np.take(array, [place], axis) for array in tensor.arrays]
            for value in self._similar(size, float(np.linalg.norm(pieces[0]))):
                own = self.file.values[value][0].shape
                layout = Layout(own, own, tuple(range(len(own))), pieces[0].shape)
                if value not in parts and value not in taken and self._is_read(value, layout, pieces):
                    parts[value] = layout
                    break
            else:
                return None
        return Division(list(parts.items()), axis)

    def _is_read(self, value: Value, layout: Layout, pieces: Arrays) -> bool:
        """Whether a value is what weights that were rounded to float32 return in a layout."""
        arrays = self.file.values[value]
        if any(array.shape != layout.source for array in arrays):
            return False
        return distance([layout.read(array) for array in arrays], pieces) <= ROUNDED

    def _similar(self, size: int, norm: float) -> list[Value]:
        """Return the values of a size and of nearly a norm, in order of computation."""
        entries = self.of_size[size]
        start = bisect_left(entries, norm * (1 - SIMILAR), key=lambda entry: entry[0])
        within = itertools.takewhile(lambda entry: entry[0] <= norm * (1 + SIMILAR), entries[start:])
        return [value for _, _, value in sorted(within, key=lambda entry: entry[1])]

    def _parts(
        self, tensor: Crossing, axis: int, heads: int, norms: Array, taken: Collection[Value]
    ) -> list[tuple[Value, Layout]] | None:
        shape, count = tensor.shape, len(norms)
        parts: list[tuple[Value, Layout]] = []
        divided = (*shape[:axis], heads, count, -1, *shape[axis + 1 :])
        for number, norm in enumerate(norms.tolist()):
            pieces = [np.take(array.reshape(divided), [number], axis + 1) for array in tensor.arrays]
            if heads == 1:
                pieces = [piece.reshape(*shape[:axis], -1, *shape[axis + 1 :]) for piece in pieces]
            used = {value for value, _ in parts}
            part = self._value(pieces, norm, {*taken, *used})
            if part is None:
                return None
            parts.append(part)
        return parts

    def _value(self, piece: Arrays, norm: float, taken: Collection[Value]) -> tuple[Value, Layout] | None:
        """Return the first value that is a part in some layout, and the layout."""
        for value in self._similar(piece[0].size, norm):
            arrays = self.file.values[value]
            layout = None if value in taken else _layout(arrays, piece)
            if layout is not None:
                return value, layout
        return None


def _layout(arrays: Arrays, piece: Arrays) -> Layout | None:
    """Return the layout in which arrays are a part, which may be the same, too."""
    own = arrays[0].shape
    same = Layout(own, own, tuple(range(len(own))), piece[0].shape)
    return same if same.reads(arrays, piece) else find_layout(arrays, piece)
