"""A tensor whose rows are those of another, each times a number of its own: what a norm or a layer scale gives them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...arrangements import Array
from ...assembly import Assembly
from ...computed import Computed
from ..joins import Join
from ..moments import Sketch, tolerance
from .context import Context

LARGEST_EPS = 0.1
SPREAD_OF_EPS = 1e-3
"""How much the eps that each row tells may vary, by the variance that it is added to."""


def with_a_factor_for_each_row(target: Sketch, context: Context, error: float) -> Iterator[Join]:
    """Yield weights with a batch norm behind them, factors for their rows, or as the direction of a weight norm."""
    if len(target.tensor.shape) < 2 or target.is_constant:
        return
    for source in context.of_shape(target):
        for axis, form in ((0, "scaled"), (1, "scaled_columns")):
            factors = factors_between(source, target, axis, error)
            if factors is None:
                continue
            for computed in _made_of(source, factors, context, axis, form, error):
                yield Join(Assembly((computed,)))


def factors_between(source: Sketch, target: Sketch, axis: int, error: float) -> Array | None:
    """Return the factors between the slices of two tensors along an axis; None if they aren't multiples in order."""
    lines, others = source.axes[axis], target.axes[axis]
    if lines.length < 2 or lines.is_zero.any():
        return None
    distance = np.abs(lines.scale_free_features - others.scale_free_features).max(axis=1)
    if np.median(distance) > tolerance(error):
        return None
    size = np.sqrt(others.sums[:, 1] / lines.sums[:, 1])
    return np.asarray(np.where(lines.sums[:, 0] * others.sums[:, 0] < 0, -size, size))


def _made_of(
    source: Sketch, factors: Array, context: Context, axis: int, form: str, error: float
) -> Iterator[Computed]:
    """Yield what vectors the factors may be made of."""
    name, near = source.tensor.name, 64 * max(error, 1e-7)
    lengths = np.sqrt(source.axes[axis].sums[:, 1])
    for _, vectors in context.vectors(len(factors)):
        for other, vector in vectors.items():
            if np.allclose(vector, factors, rtol=near, atol=0):
                yield Computed(form, (name, other))
            elif axis == 0 and np.allclose(vector, factors * lengths, rtol=near, atol=0):
                yield Computed("weight_norm", (other, name))
        if axis == 0:
            yield from _batch_norms(name, factors, vectors)


def _batch_norms(name: str, factors: Array, vectors: dict[str, Array]) -> Iterator[Computed]:
    """Yield the batch norms whose gain by the root of its variance and eps is each row's factor."""
    for gain, of_gain in vectors.items():
        for variance, of_variance in vectors.items():
            if gain != variance and (of_variance >= 0).all() and (of_gain != 0).all():
                eps = np.square(of_gain / factors) - of_variance
                middle = float(np.median(eps))
                if 0 <= middle <= LARGEST_EPS and np.abs(eps - middle).max() <= SPREAD_OF_EPS * of_variance.max():
                    digits = float(f"{middle:.1e}")
                    yield Computed("batch_norm", (name, gain, variance), (("eps", digits),))
                    yield Computed("batch_norm", (name, gain, variance), (("eps", middle),))
