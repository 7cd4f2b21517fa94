"""Tables of relative positions in buckets, as T5 has them, and the settings that they were computed with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from ..sides.records import Array

BUCKETS = (32, 64, 16, 8, 128, 256, 4, 6, 10, 12, 20, 24, 40, 48)
DISTANCES = (128, 64, 256, 512, 1024, 32, 16, 8, 20, 10, 12, 24, 48, 50, 100, 200)
"""Numbers that people write, the usual ones first."""
MAX_SIZE = 4096
"""The longest sequence whose table is looked at."""


@dataclass(frozen=True)
class Buckets:
    """The settings of a table, by the names of T5.

    Attributes:
        bidirectional: whether positions to the right have buckets of their own, or are all in the first one.
        num_buckets: number of buckets.
        max_distance: distances from here on are in the last bucket.
    """

    bidirectional: bool
    num_buckets: int
    max_distance: int

    def of(self, distances: Array) -> Array:
        """Return the buckets of distances, key position - query position.

        T5's `_relative_position_bucket`, in its precision. Raffel et al., "Exploring the limits of transfer learning
        with a unified text-to-text transformer" (2020), 2.1.
        """
        count, first = self.num_buckets, np.zeros_like(distances)
        if self.bidirectional:
            count //= 2
            first, far = (distances > 0) * count, np.abs(distances)
        else:
            far = -np.minimum(distances, 0)
        exact = count // 2
        ratio = np.log(np.maximum(far, 1).astype(np.float32) / np.float32(exact))
        large = exact + (ratio / np.float32(np.log(self.max_distance / exact)) * np.float32(count - exact)).astype(
            np.int64
        )
        buckets: Array = first + np.where(far < exact, far, np.minimum(large, count - 1))
        return buckets


def settings_of(table: Array) -> list[Buckets]:
    """Return the settings with which a table `(queries, keys)` of integers was computed; empty if it is another."""
    table = table.reshape(table.shape[-2:]) if table.ndim > 2 and table.size == np.prod(table.shape[-2:]) else table
    if table.ndim != 2 or not np.issubdtype(table.dtype, np.integer) or max(table.shape) > MAX_SIZE or table.size < 2:
        return []
    rows, columns = table.shape
    along = np.arange(-rows + 1, columns)  # the distances, of which each is a diagonal
    diagonals = np.concatenate([table[::-1, 0], table[0, 1:]])
    if not np.array_equal(diagonals[np.arange(columns)[None] - np.arange(rows)[:, None] + rows - 1], table):
        return []
    return [buckets for buckets in _all() if np.array_equal(buckets.of(along), diagonals)]


def in_words(reference: Array, candidate: Array) -> str:
    """Return what differs between the settings of two tables, with both values; "" if either is no such table."""
    pairs = sorted(product(settings_of(reference), settings_of(candidate)), key=lambda pair: len(_different(*pair)))
    if not pairs:
        return ""
    reference_settings, candidate_settings = pairs[0]
    parts = [
        f"{name} is {asdict(candidate_settings)[name]} in the candidate, "
        f"{asdict(reference_settings)[name]} in the reference"
        for name in _different(reference_settings, candidate_settings)
    ]
    return "; ".join(parts)


def _all() -> Iterator[Buckets]:
    for bidirectional, count, distance in product((True, False), BUCKETS, DISTANCES):
        exact = count // (4 if bidirectional else 2)
        if exact and distance > exact:
            yield Buckets(bidirectional, count, distance)


def _different(first: Buckets, second: Buckets) -> list[str]:
    other = asdict(second)
    return [name for name, value in asdict(first).items() if value != other[name]]
