"""Counts of values and histograms. Counts have no gradient; gradients flow to weights only."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import bool_, float32, int64, to_dtype
from ..common.tensor import from_array
from ..ir.dims import product
from ..ops import comparison, creation, elementwise, indexing, reduction, rounding, shaping
from .arguments import known_elements, require_integers
from .operands import as_floating, as_numeric, as_tensor, promote_pair
from .public_op import Primitive, public_op


@public_op(method="bincount")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """The number of occurrences of 0, 1, 2, ... among non-negative integers, or the sums of their weights.

    Args:
        input: a vector of integers.
        weights: a vector of the same size; ones by default.
        minlength: the minimum length of the result, which otherwise is the largest integer plus 1.

    Returns:
        A vector, of float32 or of the dtype of `weights`.

    Raises:
        TypeError: `input` doesn't hold integers.
        ValueError: `input` isn't a vector or holds a negative integer, `weights` has another shape, or `minlength` is
            negative.
    """
    x = require_integers(input, "input", of="bincount")
    if x.ndim != 1:
        raise ValueError(f"For 'bincount', 'input' must have one dimension, but got shape {x.shape}")
    checks.in_range(minlength, "minlength", "[0, inf)", of="bincount")
    values = known_elements(x, "the operand of bincount")
    least, most = (int(values.min()), int(values.max())) if values.size else (0, -1)
    if least < 0:
        raise ValueError(f"For 'bincount', 'input' must hold no negative integer, but got {least}")
    if weights is None:
        weights = creation.full_like(elementwise.cast(x, dtype=float32), 1)
    weights = as_numeric(weights, "weights", of="bincount")
    if weights.shape != x.shape:
        raise ValueError(f"For 'bincount', 'weights' must have shape {x.shape}, but got {weights.shape}")
    counts = creation.full_like(weights, 0, shape=(max(most + 1, minlength),))
    return indexing.scatter(counts, elementwise.cast(x, dtype=int64), weights, axis=0, reduction="add")


@public_op(method="histc", primitive=Primitive("Histogram", init_args=("bins", "min", "max")))
def histc(input: Any, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Any:
    """Histogram: the number of elements in each of `bins` equal intervals from `min` to `max`, in the dtype of `input`.

    The last interval includes `max`; elements outside are ignored. If both bounds are equal, the smallest and the
    largest element are used instead.

    Raises:
        ValueError: `bins` is below 1, or `min` above `max`.
    """
    checks.positive_int(bins, "bins", of="histc")
    if min > max:
        raise ValueError(f"For 'histc', 'min' must not be above 'max', but got {min} and {max}")
    data = as_tensor(input, of="histc")
    x = as_floating(shaping.reshape(data, shape=(product(data.shape),)), of="histc")
    low, high = np.asarray(min, x.dtype), np.asarray(max, x.dtype)
    if min == max and 0 not in data.shape:
        low, high = reduction.reduce_min(x), reduction.reduce_max(x)
    same = comparison.equal(low, high)  # one value only: an interval of width 2 around it
    low, high = elementwise.where(same, low - 1, low), elementwise.where(same, high + 1, high)
    inside = comparison.logical_and(comparison.greater_equal(x, low), comparison.less_equal(x, high))
    bin_index = rounding.floor((x - low) / (high - low) * bins)
    bin_index = elementwise.clamp(
        elementwise.where(inside, bin_index, np.zeros((), x.dtype)), minimum=0, maximum=bins - 1
    )
    counts = creation.full_like(data if data.dtype != bool_ else bin_index, 0, shape=(bins,))
    one_each = elementwise.cast(inside, dtype=counts.dtype)
    return indexing.scatter(counts, elementwise.cast(bin_index, dtype=int64), one_each, axis=0, reduction="add")


@public_op(primitive=Primitive("ConfusionMatrix", init_args=("num_classes", "dtype")))
def _confusion_matrix(
    labels: Any, predictions: Any, weights: Any = None, num_classes: int = 1, dtype: Any = "int32"
) -> Any:
    """Confusion matrix: the number of samples of each class (row) that are predicted as each class (column).

    Args:
        labels: the classes, a vector of integers.
        predictions: the predicted classes, a vector of integers.
        weights: the weight of each sample; 1 by default.
        num_classes: number of classes.
        dtype: the dtype of the result.

    Returns:
        (num_classes, num_classes).

    Raises:
        ValueError: the vectors differ in length, or a class isn't below `num_classes`.
    """
    of = "ConfusionMatrix"
    rows, columns = require_integers(labels, "labels", of=of), require_integers(predictions, "predictions", of=of)
    checks.positive_int(num_classes, "num_classes", of=of)
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise ValueError(f"For '{of}', needed two vectors of one length, but got shapes {rows.shape}, {columns.shape}")
    for x, name in ((rows, "labels"), (columns, "predictions")):
        if x.shape[0] and not (int(x.min()) >= 0 and int(x.max()) < num_classes):
            raise ValueError(f"For '{of}', '{name}' must lie in [0, {num_classes}), but got {x.tolist()}")
    places = elementwise.cast(rows, dtype=int64) * num_classes + elementwise.cast(columns, dtype=int64)
    ones = creation.full_like(places, 1) if weights is None else as_tensor(weights, "weights", of=of)
    updates = elementwise.cast(as_tensor(ones), dtype=to_dtype(dtype))
    counts = creation.full_like(updates, 0, (num_classes * num_classes,))
    summed = indexing.scatter(as_tensor(counts), places, updates, axis=0, reduction="add")
    return shaping.reshape(summed, shape=(num_classes, num_classes))


@public_op(primitive=Primitive("HistogramFixedWidth", init_args=("nbins", "dtype")))
def _histogram_fixed_width(x: Any, range: Any, nbins: int = 1, dtype: Any = "int32") -> Any:
    """The number of elements in each of `nbins` equal intervals of `range` (low, high).

    Elements below the range count in the first interval, elements above it in the last.
    """
    data = as_floating(x, "x", of="HistogramFixedWidth")
    low, high = (float(bound) for bound in as_tensor(range, "range", of="HistogramFixedWidth").tolist())
    if not low < high:
        raise ValueError(f"For 'HistogramFixedWidth', 'range' must be ascending, but got {low}, {high}")
    flat = shaping.reshape(data, shape=(product(data.shape),))
    bin_index = elementwise.clamp(rounding.floor((flat - low) * (nbins / (high - low))), minimum=0, maximum=nbins - 1)
    ones = as_tensor(creation.full_like(elementwise.cast(bin_index, dtype=to_dtype(dtype)), 1))
    counts = as_tensor(creation.full_like(ones, 0, (nbins,)))
    return indexing.scatter(counts, elementwise.cast(bin_index, dtype=int64), ones, axis=0, reduction="add")


@public_op(method="gcd", primitive="Gcd")
def gcd(input: Any, other: Any) -> Any:
    """The greatest common divisor of two integers, elementwise."""
    return _apply_to_integers(np.gcd, input, other, of="gcd")


@public_op(method="lcm", primitive="Lcm")
def lcm(input: Any, other: Any) -> Any:
    """The least common multiple of two integers, elementwise."""
    return _apply_to_integers(np.lcm, input, other, of="lcm")


def _apply_to_integers(function: np.ufunc, input: Any, other: Any, *, of: str) -> Any:
    a, b = promote_pair(input, other, of=of)
    if a.dtype.kind not in "iu":
        raise TypeError(f"For '{of}', the operands must be integers, but got dtype {a.dtype}")
    left, right = (known_elements(as_tensor(x), f"an operand of {of}") for x in (a, b))
    return from_array(np.asarray(function(left, right), a.dtype))
