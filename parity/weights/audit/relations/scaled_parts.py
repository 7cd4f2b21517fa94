"""A tensor that is joined from others of which some are multiplied by a number: a query's scale in a fused product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...computed import Computed
from ...readers.tensor import stored_array
from ..joins import Join, joins
from ..moments import Sketch, sketch, tolerance
from ..slices import FEWEST, Slice
from .context import Context
from .factors import plain

ALIKE = 1e-3
"""How much the factors of the slices of one tensor may differ at first."""


def with_scaled_parts(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield tensors that are joined to the target once each is multiplied by its own number."""
    if len(target.tensor.shape) < 2:
        return
    for axis, lines in enumerate(target.axes):
        if len(lines) < 2 or lines.length < FEWEST:
            continue
        slices = context.slices.find(lines, tolerance(error), scale_free=True)
        factors = _factors(target, axis, slices, context, error)
        if factors is None or set(factors.values()) == {1.0}:
            continue
        of_rows = np.array([factors[s.name] if s is not None else 1.0 for s in slices])
        values = target.tensor.read().astype(np.float64)
        divided = values / of_rows.reshape([-1 if n == axis else 1 for n in range(values.ndim)])
        for join in joins(sketch(stored_array(target.tensor.name, divided)), context.slices, tolerance(error)):
            sources = tuple(
                Computed("affine", (name,), (("times", factors[name]),)) if factors.get(name, 1.0) != 1.0 else name
                for name in join.assembly.names
            )
            yield replace(join, assembly=replace(join.assembly, sources=sources))


def _factors(
    target: Sketch, axis: int, slices: list[Slice | None], context: Context, error: float
) -> dict[str, float] | None:
    """Return by tensor the factor of its slices; None if slices come from nowhere, or have several factors."""
    of_tensor: dict[str, list[float]] = {}
    lines = target.axes[axis]
    for number, found in enumerate(slices):
        if found is None or found.axis is None:
            if lines.is_zero[number]:
                continue
            return None
        source = context.sketches[found.name].axes[found.axis].sums[found.number]
        size = float(np.sqrt(lines.sums[number, 1] / source[1]))
        of_tensor.setdefault(found.name, []).append(-size if source[0] * lines.sums[number, 0] < 0 else size)
    result = {}
    for name, factors in of_tensor.items():
        middle = float(np.median(factors))
        if np.ptp(factors) > ALIKE * abs(middle):
            return None
        result[name] = plain(abs(middle), error) * (1 if middle > 0 else -1)
    return result
