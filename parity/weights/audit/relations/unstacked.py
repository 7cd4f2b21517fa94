"""Tensors that are a part of a slice of another, in any order: an expert's gate in a stack of joined products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...assembly import Assembly, grids_of
from ...readers.tensor import slice_of
from ..joins import Join, joins
from ..moments import Sketch, sketch, tolerance
from ..reordering import reorderings
from ..slices import SliceIndex
from ..vectors import VectorIndex, vector_joins
from .context import Context

MOST_SLICES = 512
MOST_ROWS_OF_MATRIX = 8
"""The most rows of a matrix, each of which is looked at as a vector: Keras's two biases of a GRU."""


@dataclass(frozen=True)
class Unstacked:
    """A slice of a tensor, as a tensor."""

    source: str
    axis: int
    number: int
    sketch: Sketch


def part_of_a_slice(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield what the target is made of in slices of tensors that have an axis more."""
    groups: dict[tuple[str, int], dict[str, Unstacked]] = {}
    for piece in context.memo("unstacked", lambda: list(_unstacked(context))):
        groups.setdefault((piece.source, piece.axis), {})[f"{piece.number}"] = piece
    for (source, axis), pieces in groups.items():
        sketches = {name: piece.sketch for name, piece in pieces.items()}
        for join in _joins(target, sketches, error):
            yield replace(join, assembly=_in_the_whole(join.assembly, context.sketches[source], axis, target))


def _unstacked(context: Context) -> Iterator[Unstacked]:
    for name, of_tensor in context.sketches.items():
        shape = of_tensor.tensor.shape
        for axis, size in enumerate(shape):
            most = MOST_ROWS_OF_MATRIX if len(shape) == 2 else MOST_SLICES
            if len(shape) > 1 and 1 < size <= most and not of_tensor.is_constant and of_tensor.error > 0:
                for number in range(size):
                    yield Unstacked(name, axis, number, sketch(slice_of(of_tensor.tensor, axis, number)))


def _joins(target: Sketch, sketches: dict[str, Sketch], error: float) -> Iterator[Join]:
    most = tolerance(error)
    for name, source in sketches.items():
        if source.tensor.size == target.tensor.size:
            for assembly in reorderings(source, target, most):
                yield Join(assembly.with_names([name]))
    named = {name: replace(s, tensor=replace(s.tensor, name=name)) for name, s in sketches.items()}
    yield from joins(target, SliceIndex(named), most)
    if target.tensor.size == max((*target.tensor.shape, 1)):
        yield from vector_joins(target, VectorIndex(named), error)


def _in_the_whole(part: Assembly, source: Sketch, axis: int, target: Sketch) -> Assembly:
    """Return what is made of slices as it is made of the whole tensor."""
    shape = source.tensor.shape
    kept = [other for other in range(len(shape)) if other != axis]
    within = tuple(kept[other] for other in part.from_axes)
    count = math.prod(shape[other] for other in within)
    every = np.concatenate([np.arange(count) + int(name) * count for name in part.names])
    rows = every if part.rows is None else every[_numbers(part)]
    return replace(
        part,
        sources=(source.tensor.name,),
        shape=target.tensor.shape,
        from_axes=(axis, *within),
        rows=grids_of(rows),
    )


def _numbers(part: Assembly) -> Sequence[int]:
    assert part.rows is not None, "all rows have no numbers"
    return [int(number) for grid in part.rows for number in grid.numbers()]
