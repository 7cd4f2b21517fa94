"""A bias that a batch norm was folded into, beside a weight that it was folded into."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...assembly import Assembly
from ...computed import Computed
from ..joins import Join
from ..moments import Sketch
from ..names import parent_of
from .context import Context


def bias_before_a_norm(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield biases that the norm folded into the weight beside the target may give, with or without one before it."""
    size = target.tensor.size
    for sibling in context.guide.beside(target.tensor.name):
        for source in context.guide.assemblies[sibling].sources:
            if not isinstance(source, Computed) or source.form != "batch_norm":
                continue
            weight, gain, variance = source.of
            norm = [n for n in _vectors(context, parent_of(gain), size) if n not in (gain, variance)]
            before = [n for n in _vectors(context, parent_of(weight), size) if n not in (gain, variance)]
            for offset, mean in itertools.permutations(norm, 2):
                for bias in ((), *((name,) for name in before if name not in norm)):
                    of = (offset, gain, mean, variance, *bias)
                    yield Join(Assembly((Computed("batch_norm_bias", of, source.numbers),)))


def _vectors(context: Context, parent: str, size: int) -> list[str]:
    return [
        s.tensor.name
        for s in context.wholes.of_size(size)
        if parent_of(s.tensor.name) == parent and len(s.tensor.shape) == 1
    ]
