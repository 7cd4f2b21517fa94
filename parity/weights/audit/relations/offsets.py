"""A tensor that is another plus a number: a norm by `1 + weight`, or a gate whose bias begins at 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...assembly import Assembly
from ...computed import Computed
from ..joins import Join
from ..moments import Sketch
from .context import FEWEST, Context

DIGITS = 4


def with_an_offset(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield tensors from which all elements of the target may differ by one number, of few digits."""
    if target.tensor.size < FEWEST or target.is_constant:
        return
    mean, spread = _mean_and_spread(target)
    for source in context.of_shape(target):
        other_mean, other_spread = _mean_and_spread(source)
        offset = round(mean - other_mean, DIGITS)
        largest = max(abs(each) for s in (source, target) for each in (s.smallest, s.largest))
        if offset and np.isclose(
            spread, other_spread, rtol=8 * max(error, 1e-7) * largest / max(spread, 1e-30), atol=0
        ):
            computed = Computed("affine", (source.tensor.name,), (("plus", offset),))
            yield Join(Assembly((computed,)))


def _mean_and_spread(of_tensor: Sketch) -> tuple[float, float]:
    total, squares = of_tensor.whole.sums[0, :2] / of_tensor.tensor.size
    return float(total), float(np.sqrt(max(squares - total**2, 0.0)))
