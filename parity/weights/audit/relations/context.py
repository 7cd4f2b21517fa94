"""What is known while a computation is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...arrangements import Array
from ..moments import Sketch, WholeIndex
from ..names import NameGuide, parent_of
from ..slices import SliceIndex

T = TypeVar("T")

MOST_SOURCES = 16
"""The most tensors, the likeliest by their names, that a tensor may be computed from."""
FEWEST = 8
"""The fewest elements from which a computation with a number is told from chance."""


@dataclass(frozen=True)
class Context:
    """What is known of the checkpoint that a tensor may be computed from.

    Attributes:
        sketches: the tensors by name.
        wholes: the same by their moments.
        slices: their slices along each axis.
        guide: what is known of names.
    """

    sketches: Mapping[str, Sketch]
    wholes: WholeIndex
    slices: SliceIndex
    guide: NameGuide
    _memo: dict[str, Any] = field(default_factory=dict)

    def memo(self, key: str, compute: Callable[[], T]) -> T:
        """Return what is computed once for all tensors."""
        if key not in self._memo:
            self._memo[key] = compute()
        result: T = self._memo[key]
        return result

    def likely(self, target: Sketch, sources: Sequence[Sketch]) -> list[Sketch]:
        """Return the likeliest sources by their names, the likeliest first."""
        name = target.tensor.name
        return sorted(sources, key=lambda s: self.guide.likeness(name, s.tensor.name), reverse=True)[:MOST_SOURCES]

    def of_shape(self, target: Sketch) -> list[Sketch]:
        """Return the likeliest sources of the target's shape."""
        same = (s for s in self.wholes.of_size(target.tensor.size) if s.tensor.shape == target.tensor.shape)
        return self.likely(target, list(same))

    def vectors(self, size: int) -> Iterator[tuple[str, dict[str, Array]]]:
        """Yield the vectors of a size that belong together, by the name that they have in common."""
        groups: dict[str, dict[str, Array]] = {}
        for of_vector in self.wholes.of_size(size):
            if max((*of_vector.tensor.shape, 1)) == size:
                name = of_vector.tensor.name
                groups.setdefault(parent_of(name), {})[name] = of_vector.tensor.read().reshape(-1).astype(np.float64)
        yield from groups.items()
