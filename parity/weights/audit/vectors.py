"""Vectors that are put together from runs of elements of others: the biases of joined or divided products."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..arrangements import Array
from .joins import MOST_UNKNOWN, Join, rows_of
from .moments import Sketch

MOST_PLACES = 64
"""The most places from which an element may come that are looked at."""
TELLING = 1e-5
"""The largest relative error with which a single element is told from those of other vectors."""
FEWEST_IN_RUN = 4
"""The fewest successive elements that are told from others where the error is larger."""


class VectorIndex:
    """The elements of all vectors, sorted.

    Args:
        sketches: tensors by name; those with several axes are left out.
    """

    def __init__(self, sketches: Mapping[str, Sketch]) -> None:
        vectors = {
            name: s.tensor.read().reshape(-1).astype(np.float64)
            for name, s in sketches.items()
            if s.tensor.size == max((*s.tensor.shape, 1)) and s.tensor.size > 1
        }
        self.names = list(vectors)
        self.starts = np.cumsum([0, *map(len, vectors.values())])[:-1]
        self.ends = np.append(self.starts[1:], sum(map(len, vectors.values())))
        self.values = np.concatenate([*vectors.values(), np.zeros(0)])
        self._order = np.argsort(self.values, kind="stable")
        self._ordered = self.values[self._order]

    def places(self, value: float, most: float) -> list[int]:
        """Return where elements are that differ from a number by a relative error of at most `most`."""
        width = most * abs(value)
        first = np.searchsorted(self._ordered, value - width, "left")
        last = np.searchsorted(self._ordered, value + width, "right")
        return [int(place) for place in self._order[first : min(last, first + MOST_PLACES)]]

    def vector_at(self, place: int) -> int:
        """Return the number of the vector to which a place belongs."""
        return int(np.searchsorted(self.starts, place, "right")) - 1


def vector_joins(target: Sketch, index: VectorIndex, most: float) -> Iterator[Join]:
    """Yield what a vector is put together from; values must confirm it.

    Args:
        target: a tensor that has at most one axis of another size than 1, and isn't constant.
        index: the vectors of which it may be.
        most: the relative error of an element.
    """
    values = target.tensor.read().reshape(-1).astype(np.float64)
    places = _places(values, index, most)
    is_known = places >= 0
    is_zero = ~is_known & (values == 0)
    if not is_known.any() or (~is_known & ~is_zero).sum() > MOST_UNKNOWN * len(values):
        return
    vectors = [index.vector_at(place) for place in places[is_known]]
    used = list(dict.fromkeys(vectors))
    lengths = [int(index.ends[v] - index.starts[v]) for v in used]
    offsets = dict(zip(used, np.cumsum([0, *lengths])[:-1], strict=True))
    numbers = np.zeros(len(values), np.int64)
    numbers[is_known] = [p - index.starts[v] + offsets[v] for p, v in zip(places[is_known], vectors, strict=True)]
    names = tuple(index.names[v] for v in used)
    unknown, padding = (tuple(map(int, np.flatnonzero(which))) for which in (~is_known & ~is_zero, is_zero))
    yield Join(replace(rows_of(names, numbers, padding, sum(lengths)), shape=target.tensor.shape), unknown, padding)


def _places(values: Array, index: VectorIndex, most: float) -> Array:
    """Return where each element comes from, in few vectors and runs as long as possible; -1 where from nowhere."""
    possible = [index.places(value, most) if value else [] for value in values]
    votes: Counter[int] = Counter()
    for of_element in possible:
        for vector in {index.vector_at(place) for place in of_element}:
            votes[vector] += 1
    result = np.full(len(values), -1)
    for number, of_element in enumerate(possible):
        following = result[number - 1] + 1 if number and result[number - 1] >= 0 else -1
        if following in of_element and index.vector_at(following) == index.vector_at(following - 1):
            result[number] = following
        elif of_element:
            result[number] = max(of_element, key=lambda place: votes[index.vector_at(place)])
    if most > TELLING:  # single elements are near others by chance
        runs = np.flatnonzero(np.diff(result, prepend=-2, append=-2) != 1)
        for start, end in itertools.pairwise(runs):
            if end - start < FEWEST_IN_RUN:
                result[start:end] = -1
    return result
