"""The elements of a vector, or of what is added to or multiplied with each element, in the order of the candidate's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ...sides.records import Array
from .agreement import CLOSE
from .features import Arrays, same_features
from .rewriting import varying_axis
from .units import Unit


def same_elements(places: Array, numbers: Array, data: Arrays, original_data: Arrays) -> tuple[Array, Array] | None:
    """Return which element of the reference's operand meets what each of the candidate's meets, by the data's numbers.

    Args:
        places: for each element of the candidate's operand, its position in the stored tensor.
        numbers: for each element of the reference's operand, its number.
        data: what enters the candidate's operation, on each sample.
        original_data: what enters the reference's.

    Returns:
        Positions, and the number for each of them; None if the data aren't the same, or don't tell.
    """
    if data[0].size != original_data[0].size:
        return None
    try:
        of_candidate = np.broadcast_to(places, data[0].shape).reshape(-1)
        of_reference = np.broadcast_to(numbers, original_data[0].shape).reshape(-1)
    except ValueError:  # the operand is the larger one
        return None
    orders = _orders(data, original_data)
    if orders is None:
        return None
    return in_order(of_candidate[orders[0]], of_reference[orders[1]])


def in_order(places: Array, numbers: Array) -> tuple[Array, Array] | None:
    """Return positions, and the one number that meets each of them; None if several do, or one meets several.

    Args:
        places: positions in the candidate's tensor, of any shape.
        numbers: as many numbers, in the same order.
    """
    if places.size != numbers.size:
        return None
    places, numbers = places.reshape(-1), numbers.reshape(-1)
    filled, first = np.unique(places, return_index=True)
    chosen = numbers[first]
    if not np.array_equal(chosen[np.searchsorted(filled, places)], numbers):
        return None
    if len(np.unique(chosen)) < len(chosen):  # a vector isn't what a table of positions holds
        return None
    return filled[filled >= 0], chosen[filled >= 0]


def _orders(data: Arrays, original_data: Arrays) -> tuple[Array, Array] | None:
    """Return orders in which the elements of two values are the same; None if there are none, or several."""
    flat, original_flat = ([array.reshape(-1) for array in arrays] for arrays in (data, original_data))
    with np.errstate(invalid="ignore"):
        if all(_are_close(a, b) for a, b in zip(flat, original_flat, strict=True)):
            return np.arange(flat[0].size), np.arange(flat[0].size)
        orders = np.argsort(flat[0], kind="stable"), np.argsort(original_flat[0], kind="stable")
        first, second = flat[0][orders[0]], original_flat[0][orders[1]]
        apart = np.abs(first - second).max(initial=0.0)
        are_told_apart = bool(np.abs(np.diff(first)).min(initial=np.inf) > 2 * apart)
        if are_told_apart and all(
            _are_close(a[orders[0]], b[orders[1]]) for a, b in zip(flat, original_flat, strict=True)
        ):
            return orders
    return None


def _are_close(first: Array, second: Array) -> bool:
    return bool(np.all(np.abs(first - second) <= CLOSE * (np.abs(second).mean() + np.abs(second))))


def same_shape(
    unit: Unit, original: Unit, weight: Array, shape: tuple[int, ...], data: tuple[Arrays, Arrays] | None
) -> Iterator[Array]:
    """Yield the reference's numbers in the candidate's shape.

    Args:
        unit: the unit of the candidate.
        original: the unit of the reference.
        weight: its numbers, without axes along which they repeat.
        shape: the shape of the candidate's.
        data: what enters both, if that is known.
    """
    if weight.size != np.prod(shape, dtype=int):
        return
    if weight.ndim == len(shape) == 1 and data is not None and unit.data is not None and original.data is not None:
        axes = [varying_axis(u.data.shape, u.operand.shape) for u in (unit, original) if u.data is not None]
        if axes[0] is not None and axes[1] is not None:
            order = same_features(data[0], axes[0], data[1], axes[1])
            if order is not None and len(order) == shape[0]:
                yield weight[order]
                return
    if weight.ndim != len(shape):
        if sorted(s for s in weight.shape if s > 1) == sorted(s for s in shape if s > 1) or 1 in (
            weight.ndim,
            len(shape),
        ):
            yield weight.reshape(shape)
        return
    for permutation in itertools.permutations(range(weight.ndim)):
        if weight.transpose(permutation).shape == shape:
            yield weight.transpose(permutation)
