"""Counts: `histc`."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, creation, elementwise, indexing, reduction, rounding, shaping
from ....runtime.tracing import Traced
from ..table import Context, aten, cast


@aten("aten.histc.default")
def histc(context: Context, self: Traced, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor

    What lies outside of the range isn't counted; `max` itself is in the last bin. Of an empty range, the least and the
    greatest element take the place; if they are equal, too, one less and one more.
    """
    x = shaping.reshape(self, shape=(product(self.shape),))
    low, high = _range(context, x, min, max)
    place = rounding.floor((x - low) * bins / (high - low))
    inside = comparison.logical_and(comparison.greater_equal(x, low), comparison.less_equal(x, high))
    place = elementwise.clamp(place, minimum=0, maximum=bins - 1)
    zeros = context.builder.create(creation.full, shape=(bins,), value=0, dtype=self.dtype)
    return indexing.scatter(zeros, cast(place, INT64), cast(inside, self.dtype), axis=0, reduction="add")


def _range(context: Context, x: Traced, low: float, high: float) -> tuple[Any, Any]:
    if low != high:
        return context.builder.constant(low, x.dtype), context.builder.constant(high, x.dtype)
    least, greatest = reduction.reduce_min(x, axes=(0,)), reduction.reduce_max(x, axes=(0,))
    same = cast(comparison.equal(least, greatest), x.dtype)
    return least - same, greatest + same
