"""A matrix that is another plus a multiple of a product of two small ones: an adapter that was merged (LoRA)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...arrangements import Array
from ...assembly import Assembly
from ...computed import Computed
from ..joins import Join
from ..moments import Sketch
from ..names import numbers_of
from .context import Context
from .factors import plain

MOST_PAIRS = 16
"""The most pairs of small matrices that are tried, the likeliest by their names."""


def with_a_low_rank_update(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield matrices and adapters whose sum the target may be."""
    if len(target.tensor.shape) != 2 or not any(True for _ in _adapters(target, context)):
        return
    wanted = target.tensor.read().astype(np.float64)
    for source in context.of_shape(target):
        update = wanted - source.tensor.read().astype(np.float64)
        for up, down in _adapters(target, context):
            product = _read(context, up) @ _read(context, down)
            norm = float(np.square(product).sum())
            factor = float((update * product).sum()) / norm if norm else 0.0
            if factor and np.linalg.norm(update - factor * product) <= 0.1 * np.linalg.norm(update):
                of = (source.tensor.name, up, down)
                for times in dict.fromkeys((plain(factor, 1e-4), factor)):
                    yield Join(Assembly((Computed("lora", of, (("times", times),)),)))


def _adapters(target: Sketch, context: Context) -> Iterator[tuple[str, str]]:
    """Yield pairs of matrices whose product has the target's shape, those with its numbers in their names first."""
    rows, columns = target.tensor.shape
    ups, downs = (
        [
            name
            for name, s in context.sketches.items()
            if len(s.tensor.shape) == 2
            and s.tensor.shape[axis] == size
            and s.tensor.shape[1 - axis] < min(rows, columns)
        ]
        for axis, size in ((0, rows), (1, columns))
    )
    ranks = {name: context.sketches[name].tensor.shape for name in (*ups, *downs)}
    pairs = [(up, down) for up in ups for down in downs if up != down and ranks[up][1] == ranks[down][0]]
    wanted = numbers_of(target.tensor.name)
    pairs.sort(key=lambda pair: (numbers_of(pair[0]) != wanted, numbers_of(pair[0]) != numbers_of(pair[1])))
    yield from pairs[:MOST_PAIRS]


def _read(context: Context, name: str) -> Array:
    return context.sketches[name].tensor.read().astype(np.float64)
