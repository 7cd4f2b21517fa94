"""A tensor that is another, in any order, times a number: a scale that was folded into it, or another sign."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...computed import Computed
from ..joins import Join
from ..moments import POWERS, Lines, Sketch, tolerance
from ..reordering import reorderings
from .context import FEWEST, Context

MOST_WHOLE = 1 << 16
"""The largest whole number of which a factor may be the root or the inverse."""


def with_a_factor(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield tensors of which the target may be a multiple."""
    if target.tensor.size < FEWEST or target.is_constant:
        return
    most = tolerance(error)
    features = target.whole.scale_free_features[0]
    alike = [
        s
        for s in context.wholes.of_size(target.tensor.size)
        if not s.is_constant and np.abs(s.whole.scale_free_features[0] - features).max() <= most
    ]
    for source in context.likely(target, alike):
        size = math.sqrt(target.whole.sums[0, 1] / source.whole.sums[0, 1])
        for factor in (plain(size, error), -plain(size, error)):
            for assembly in reorderings(_times(source, factor), target, most):
                computed = Computed("affine", (source.tensor.name,), (("times", factor),))
                yield Join(replace(assembly, sources=(computed,)))


def plain(number: float, error: float) -> float:
    """Return the whole number, its root or the inverse of one of these that a number is within an error; or itself."""
    for power, inverse in ((1, False), (1, True), (2, False), (2, True)):
        whole = (1 / number if inverse else number) ** power
        nearest = round(whole)
        if 1 <= nearest <= MOST_WHOLE and abs(whole - nearest) <= 4 * max(error, 1e-7) * nearest:
            root = math.sqrt(nearest) if power == 2 else float(nearest)
            return 1 / root if inverse else root
    return number


def _times(source: Sketch, factor: float) -> Sketch:
    """Return the sketch of a multiple."""
    powers = factor ** np.arange(1, POWERS + 1)

    def times(lines: Lines) -> Lines:
        return Lines(lines.sums * powers, lines.length)

    return replace(source, whole=times(source.whole), axes=[times(lines) for lines in source.axes])
