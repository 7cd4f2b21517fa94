"""Counts of values and histograms. No gradient flows through counts, only through weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import bool_, float32, int64
from ..ir.dims import product
from ..ops import comparison, creation, elementwise, indexing, reduction, rounding, shaping
from .arguments import require_integers
from .operands import as_tensor, floats, numbers
from .spelling import Primitive, spelled


@spelled(method="bincount")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of 0, 1, 2, ... occurs among non-negative integers, or the sum of its weights.

    Args:
        input: a vector of integers.
        weights: a vector of as many; ones if not given.
        minlength: the length that the result has at least; it has the largest integer plus 1.

    Returns:
        A vector, of float32 or of the dtype of `weights`.

    Raises:
        TypeError: `input` doesn't hold integers.
        ValueError: it isn't a vector or holds a negative integer, `weights` has another shape, or `minlength` is
            negative.
    """
    x = require_integers(input, "input", of="bincount")
    if x.ndim != 1:
        raise ValueError(f"For 'bincount', 'input' must have one dimension, but got shape {x.shape}")
    checks.in_range(minlength, "minlength", "[0, inf)", of="bincount")
    least, most = (int(x.min()), int(x.max())) if x.shape[0] else (0, -1)
    if least < 0:
        raise ValueError(f"For 'bincount', 'input' must hold no negative integer, but got {least}")
    if weights is None:
        weights = creation.full_like(elementwise.cast(x, dtype=float32), 1)
    weights = numbers(weights, "weights", of="bincount")
    if weights.shape != x.shape:
        raise ValueError(f"For 'bincount', 'weights' must have shape {x.shape}, but got {weights.shape}")
    counts = creation.full_like(weights, 0, shape=(max(most + 1, minlength),))
    return indexing.scatter(counts, elementwise.cast(x, dtype=int64), weights, axis=0, reduction="add")


@spelled(method="histc", primitive=Primitive("Histogram", made_with=("bins", "min", "max")))
def histc(input: Any, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Any:
    """How many elements fall into each of `bins` equal intervals from `min` to `max`, in the dtype of `input`.

    The last interval includes `max`; elements outside are left out. If both bounds are equal, the smallest and the
    largest element take their place.

    Raises:
        ValueError: `bins` is below 1, or `min` above `max`.
    """
    checks.positive_int(bins, "bins", of="histc")
    if min > max:
        raise ValueError(f"For 'histc', 'min' must not be above 'max', but got {min} and {max}")
    given = as_tensor(input, of="histc")
    x = floats(shaping.reshape(given, shape=(product(given.shape),)), of="histc")
    low, high = np.asarray(min, x.dtype), np.asarray(max, x.dtype)
    if min == max and 0 not in given.shape:
        low, high = reduction.reduce_min(x), reduction.reduce_max(x)
    same = comparison.equal(low, high)  # one value only: an interval of width 2 around it
    low, high = elementwise.where(same, low - 1, low), elementwise.where(same, high + 1, high)
    inside = comparison.logical_and(comparison.greater_equal(x, low), comparison.less_equal(x, high))
    place = rounding.floor((x - low) / (high - low) * bins)
    place = elementwise.clamp(elementwise.where(inside, place, np.zeros((), x.dtype)), minimum=0, maximum=bins - 1)
    counts = creation.full_like(given if given.dtype != bool_ else place, 0, shape=(bins,))
    one_each = elementwise.cast(inside, dtype=counts.dtype)
    return indexing.scatter(counts, elementwise.cast(place, dtype=int64), one_each, axis=0, reduction="add")
