"""All slices of the tensors of a checkpoint, found by their moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..arrangements import Array
from .moments import Lines, Sketch, nearest

FEWEST = 4
"""The fewest elements of a slice that is found by its moments."""


@dataclass(frozen=True)
class Slice:
    """A slice of a tensor: its number along an axis. With the axis None it is the whole tensor."""

    name: str
    axis: int | None
    number: int


@dataclass
class SliceIndex:
    """All slices of some tensors, by the number of their elements.

    Args:
        sketches: the tensors by name.
    """

    sketches: Mapping[str, Sketch]
    _by_length: dict[int, list[tuple[str, int | None, Lines]]] = field(default_factory=dict)
    _starts: dict[int, Array] = field(default_factory=dict)
    _features: dict[tuple[int, bool], Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, of_tensor in self.sketches.items():
            views: list[tuple[int | None, Lines]] = [(None, of_tensor.whole), *enumerate(of_tensor.axes)]
            for axis, lines in views:
                if lines.length >= FEWEST and (axis is None or len(lines) > 1):
                    self._by_length.setdefault(lines.length, []).append((name, axis, lines))

    def find(self, lines: Lines, most: float, *, scale_free: bool = False) -> list[Slice | None]:
        """Return for each slice one that may have the same elements, or with `scale_free` a multiple of them."""
        length = lines.length
        if length not in self._by_length:
            return [None] * len(lines)
        views = self._by_length[length]
        if length not in self._starts:
            self._starts[length] = np.cumsum([0, *(len(of_view) for _, _, of_view in views)])[:-1]
        if (length, scale_free) not in self._features:
            every = [_features(of_view, scale_free=scale_free) for _, _, of_view in views]
            self._features[length, scale_free] = np.concatenate(every)
        starts, features = self._starts[length], self._features[length, scale_free]
        result: list[Slice | None] = []
        for number in nearest(_features(lines, scale_free=scale_free), features, most):
            view = int(np.searchsorted(starts, number, "right")) - 1
            result.append(Slice(*views[view][:2], int(number - starts[view])) if number >= 0 else None)
        return result


def _features(lines: Lines, *, scale_free: bool) -> Array:
    return lines.scale_free_features if scale_free else lines.features
