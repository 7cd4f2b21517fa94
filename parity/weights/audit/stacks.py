"""Tensors whose slices along an axis are each put together from others: experts of joined products, directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..assembly import Assembly, grids_of
from ..readers.tensor import slice_of
from .joins import Join
from .moments import Sketch, sketch

MOST_SLICES = 512
"""The most slices of a tensor that are put together one by one."""
MOST_OF_MATRIX = 8
"""The most of a matrix: its slices are vectors, which agree by chance."""


def stacks(
    target: Sketch, sketches: Mapping[str, Sketch], made_of: Callable[[Sketch], Assembly | None]
) -> Iterator[Join]:
    """Yield what a tensor may be stacked from; values must confirm it.

    Args:
        target: the tensor.
        sketches: the tensors of which it may be, by name.
        made_of: returns what a slice is made of, all of which is confirmed.
    """
    shape = target.tensor.shape
    for axis, size in enumerate(shape):
        if len(shape) < 2 or not 1 < size <= (MOST_OF_MATRIX if len(shape) == 2 else MOST_SLICES):
            continue
        parts: list[Assembly] = []
        for number in range(size):
            part = made_of(sketch(slice_of(target.tensor, axis, number)))
            if part is None or (parts and not _are_alike(part, parts[0])):
                break
            parts.append(part)
        if len(parts) == size:
            yield Join(_stacked(parts, axis, shape, sketches))


def _are_alike(part: Assembly, first: Assembly) -> bool:
    same = (part.from_axes, part.columns, part.axes) == (first.from_axes, first.columns, first.axes)
    return same and not part.padding and all(isinstance(source, str) for source in part.sources)


def _stacked(parts: Sequence[Assembly], axis: int, shape: Sequence[int], sketches: Mapping[str, Sketch]) -> Assembly:
    """Return the assembly of all parts, one below the other."""
    first = parts[0]
    sources = [source for part in parts for source in part.sources]
    unique = list(dict.fromkeys(sources))
    counts = {
        name: math.prod((sketches[str(name)].tensor.shape or (1,))[other] for other in first.from_axes)
        for name in unique
    }
    starts = dict(zip(unique, np.cumsum([0, *counts.values()])[:-1], strict=True))
    numbers = []
    for part in parts:
        rows = np.concatenate([np.arange(counts[name]) + starts[name] for name in part.sources])
        taken = rows if part.rows is None else rows[np.concatenate([grid.numbers() for grid in part.rows])]
        numbers.append(taken)
    every = np.concatenate(numbers)
    total = sum(counts.values())
    is_all = len(every) == total and np.array_equal(every, np.arange(total))
    inner = [other for other in range(len(shape)) if other != axis]
    axes = (axis, *(inner[other] for other in first.axes))
    return replace(
        first, sources=tuple(unique), shape=tuple(shape), rows=None if is_all else grids_of(every), axes=axes
    )
