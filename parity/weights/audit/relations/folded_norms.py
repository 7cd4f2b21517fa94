"""Biases that a norm was folded into, beside the weight that it was folded into."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...assembly import Assembly
from ...computed import Computed
from ..joins import Join
from ..moments import Sketch
from ..names import parent_of
from .context import Context


def bias_of_a_folded_norm(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield biases that the norm folded into the weight beside the target gives, with or without one that was there."""
    for sibling in context.guide.beside(target.tensor.name):
        for source in context.guide.assemblies[sibling].sources:
            if isinstance(source, Computed) and source.form == "batch_norm":
                yield from _before_a_batch_norm(target, source, context)
            elif isinstance(source, Computed) and source.form == "scaled_columns":
                yield from _behind_a_norm(target, source, context)


def _before_a_batch_norm(target: Sketch, source: Computed, context: Context) -> Iterator[Join]:
    weight, gain, variance = source.of
    size = target.tensor.size
    norm = [n for n in _vectors(context, parent_of(gain), size) if n not in (gain, variance)]
    before = [n for n in _vectors(context, parent_of(weight), size) if n not in (gain, variance, *norm)]
    for offset, mean in itertools.permutations(norm, 2):
        for bias in ((), *((name,) for name in before)):
            yield Join(Assembly((Computed("batch_norm_bias", (offset, gain, mean, variance, *bias), source.numbers),)))


def _behind_a_norm(target: Sketch, source: Computed, context: Context) -> Iterator[Join]:
    weight, gain = source.of
    size = context.sketches[gain].tensor.size
    shifts = [n for n in _vectors(context, parent_of(gain), size) if n != gain]
    biases = [n for n in _vectors(context, parent_of(weight), target.tensor.size) if n not in (gain, *shifts)]
    for shift in shifts:
        for bias in ((), *((name,) for name in biases)):
            yield Join(Assembly((Computed("moved_bias", (weight, shift, *bias)),)))


def _vectors(context: Context, parent: str, size: int) -> list[str]:
    return [
        s.tensor.name
        for s in context.wholes.of_size(size)
        if parent_of(s.tensor.name) == parent and len(s.tensor.shape) == 1
    ]
