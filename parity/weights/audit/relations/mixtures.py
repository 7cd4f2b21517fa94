"""A tensor that is an average of others, or another linear combination: a moving average, or a merge of models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...assembly import Assembly
from ...computed import Computed
from ..joins import Join
from ..moments import Sketch
from .context import FEWEST, Context

MOST_MERGED = 8
DIGITS = 6


def with_a_mixture(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield tensors with one name in several checkpoints of which the target may be a linear combination."""
    if target.tensor.size < FEWEST or target.is_constant:
        return
    groups: dict[str, list[Sketch]] = {}
    for source in context.of_shape(target):
        groups.setdefault(source.tensor.name.rpartition(":")[2], []).append(source)
    values = target.tensor.read().reshape(-1).astype(np.float64)
    for group in groups.values():
        if 1 < len(group) <= MOST_MERGED:
            columns = np.stack([s.tensor.read().reshape(-1).astype(np.float64) for s in group], axis=1)
            weights = np.linalg.lstsq(columns, values)[0]
            names = tuple(s.tensor.name for s in group)
            for numbers in (tuple(round(float(w), DIGITS) for w in weights), tuple(map(float, weights))):
                yield Join(Assembly((Computed("mixture", names, (("weights", numbers),)),)))
