"""Rules of sums, means, and sums of products."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...sides.records import Array
from .estimates import Application, Estimate, Units, bound_of, together

FEW_TERMS = 4.0
"""Square root of the number of terms of an interpolation in two dimensions with quadratic weights."""


def summed(a: Application) -> tuple[Array, ...] | None:
    """Sums of elements that an index chooses."""
    if a.attributes.get("reduction", "add") not in ("none", "add"):
        return None
    (count,), (squares,) = a.map(lambda x: np.ones_like(x.value)), a.map(lambda x: np.square(x.value))
    (inherited,) = a.map(lambda x: np.square(bound_of(x)))
    return (together(np.sqrt(inherited), a.units.of_sum(count, a.outputs[0], squares)),)


def cumulated(a: Application) -> tuple[Array, ...]:
    """Sums of all elements before and at each place: partial sums themselves."""
    x, (y,), axis = a.first, a.outputs, a.attributes["axis"]
    inherited, partial = (np.cumsum(np.square(terms), axis) for terms in (bound_of(x), y))
    return (together(np.sqrt(inherited), a.units.of_sum(0, y, np.zeros(()), partial)),)


def reduced(a: Application) -> tuple[Array, ...]:
    """Sums and means over axes."""
    axes = a.attributes["axes"]
    axes = tuple(range(a.first.value.ndim)) if axes is None else axes
    over = sum_over if a.op.name == "reduce_sum" else mean_over
    return (bound_of(over(a.first, axes, a.units)).reshape(a.outputs[0].shape),)


def averaged(a: Application) -> tuple[Array, ...]:
    """Means over windows."""
    x, (mean,) = a.first, a.outputs
    spatial = math.prod(x.value.shape[2:])
    count = math.prod(a.attributes["kernel"]) if "kernel" in a.attributes else spatial / math.prod(mean.shape[2:])
    if count == spatial and math.prod(mean.shape[2:]) == 1:  # one window for the whole plane
        return (bound_of(mean_over(x, tuple(range(2, mean.ndim)), a.units)),)
    (weights,) = a(np.ones_like(x.value))  # their sum; less than 1 where a window reaches over the edge
    (inherited,), (squares,) = (a(np.square(terms)) for terms in (bound_of(x), x.value))
    share = weights / count
    return (together(np.sqrt(share * inherited), a.units.of_sum(count, mean, share * squares)),)


def sum_over(x: Estimate, axes: tuple[int, ...], units: Units) -> Estimate:
    """The sum over axes, which are kept with size 1."""
    axes = tuple(axis % x.value.ndim for axis in axes)
    kept = [axis for axis in range(x.value.ndim) if axis not in axes]
    rows = x.value.transpose(*kept, *sorted(axes)).reshape(*(x.value.shape[axis] for axis in kept), -1)
    value, squares = (terms.sum(axis=axes, keepdims=True) for terms in (x.value, np.square(x.value)))
    partial = np.square(np.cumsum(rows, axis=-1)).sum(axis=-1).reshape(value.shape)
    inherited = np.sqrt(np.square(bound_of(x)).sum(axis=axes, keepdims=True))
    return Estimate(value, together(inherited, units.of_sum(rows.shape[-1], value, squares, partial)))


def mean_over(x: Estimate, axes: tuple[int, ...], units: Units) -> Estimate:
    """The mean over axes, which are kept with size 1."""
    count = math.prod(x.value.shape[axis] for axis in axes)
    total = sum_over(x, axes, units)
    value = total.value / count
    return Estimate(value, together(bound_of(total) / count, units.results * value))


def interpolated(a: Application) -> tuple[Array, ...] | None:
    """Sums of the elements of a few windows; interpolation has weights that are computed and rounded too."""
    if not a.attributes.get("mode", "nearest").startswith("nearest"):
        return None
    x = a.first
    (weights,), (magnitudes,) = a(np.ones_like(x.value)), a(np.abs(x.value))
    return (a(bound_of(x))[0] + a.units.results * (FEW_TERMS + np.sqrt(weights)) * magnitudes,)


def bilinear(a: Application) -> tuple[Array, ...]:
    """Sums of products of two operands, and a bias."""
    first, second, *others = a.operands
    assert first is not None
    assert second is not None
    if a.op.input_names[2:] == ["bias"]:
        return (product_bound(lambda *operands: a(*operands)[0], first, second, others[0], a.outputs[0], a.units),)
    exact = [None if x is None else x.value for x in others]
    return (product_bound(lambda x, y, _: a(x, y, *exact)[0], first, second, None, a.outputs[0], a.units),)


def product_bound(
    product: Callable[[Array, Array, Array | None], Array],
    first: Estimate,
    second: Estimate,
    bias: Estimate | None,
    value: Array,
    units: Units,
) -> Array:
    """Return the bound of sums of products.

    Args:
        product: computes the sums, and adds a bias.
        first: one operand.
        second: the other.
        bias: the bias; None for none.
        value: the sums.
        units: the unit roundoffs.
    """

    def of(part: Callable[[Estimate], Array]) -> Array:
        return product(part(first), part(second), None if bias is None else part(bias))

    no_bias = None if bias is None else np.zeros_like(bias.value)
    count, squares = of(lambda x: np.ones_like(x.value)), of(lambda x: np.square(x.value))
    bound = units.of_sum(count, value, squares)
    inherited = of(lambda x: np.square(bound_of(x)))  # of the bias; the product of two bounds is negligible
    if bound_of(first).any():
        inherited += product(np.square(bound_of(first)), np.square(second.value), no_bias)
    if bound_of(second).any():
        inherited += product(np.square(first.value), np.square(bound_of(second)), no_bias)
    return together(bound, np.sqrt(inherited))
