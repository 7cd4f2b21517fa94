"""Layouts: how the elements of a module's tensor lie in a candidate's, of another shape or with other axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from .distances import EXACT, Array, Arrays, distance

MOST_AXES = 6
FEWEST_ELEMENTS = 4
"""Of smaller tensors, too many orders agree by chance."""


@dataclass(frozen=True)
class Layout:
    """How to read a tensor of the module from one of the candidate: divide its axes, exchange them, and join them.

    Or take what lies along one axis in another order, as channels, and exchange whole axes.

    Attributes:
        source: shape of the candidate's tensor.
        divided: that shape with axes divided.
        permutation: for each axis of the result, an axis of `divided`.
        target: shape of the module's tensor.
        axis: the axis of the candidate's tensor along which elements have another order.
        order: for each place along it, the place from which elements are taken; empty if they have the same order.
    """

    source: tuple[int, ...]
    divided: tuple[int, ...]
    permutation: tuple[int, ...]
    target: tuple[int, ...]
    axis: int = 0
    order: tuple[int, ...] = ()

    @property
    def exchanges_axes(self) -> bool:
        """Whether it exchanges whole axes, and does nothing else."""
        if self.order or self.divided != self.source:
            return False
        return self.target == tuple(self.source[axis] for axis in self.permutation)

    @property
    def order_of_features(self) -> tuple[int, ...]:
        """For each place along the last axis of the result, the place among those from which all lines there are taken.

        Empty if they have the same order, or if a line has elements from several places.
        """
        places = self.read(np.arange(math.prod(self.source)).reshape(self.source))
        offsets = places - places.min(axis=-1, keepdims=True)
        first = offsets.reshape(-1, self.target[-1])[0]
        plain = np.arange(len(first))
        is_order = (offsets == first).all() and np.array_equal(np.sort(first), plain)
        return tuple(map(int, first)) if is_order and not np.array_equal(first, plain) else ()

    @property
    def inverse(self) -> Layout:
        """The layout that reads the candidate's tensor from the module's."""
        order = tuple(int(axis) for axis in np.argsort(self.permutation))
        places = tuple(int(place) for place in np.argsort(self.order)) if self.order else ()
        axis = self.permutation.index(self.axis) if self.order else 0
        divided = tuple(self.divided[axis] for axis in self.permutation)
        return Layout(self.target, divided, order, self.source, axis, places)

    def read(self, array: Array) -> Array:
        """Return an array of the candidate, of shape `source`, as the module has it, of shape `target`."""
        ordered = array.take(self.order, self.axis) if self.order else array
        return ordered.reshape(self.divided).transpose(self.permutation).reshape(self.target)

    @property
    def steps(self) -> list[tuple[str, dict[str, object], tuple[int, ...]]]:
        """The ops that read a tensor so: name, attributes, and shape of the result. `take` is given `order`, too."""
        exchanged = tuple(self.divided[axis] for axis in self.permutation)
        steps: list[tuple[str, dict[str, object], tuple[int, ...]]] = []
        if self.order:
            steps.append(("take", {"axis": self.axis}, self.source))
        if self.divided != self.source:
            steps.append(("reshape", {"shape": self.divided}, self.divided))
        if self.permutation != tuple(range(len(self.permutation))):
            steps.append(("transpose", {"permutation": self.permutation}, exchanged))
        if exchanged != self.target:
            steps.append(("reshape", {"shape": self.target}, self.target))
        return steps

    def reads(self, arrays: Arrays, truth: Arrays) -> bool:
        """Whether arrays of the candidate, one for each sample, are these of the module up to rounding."""
        if any(array.shape != self.source for array in arrays):
            return False
        return distance([self.read(array) for array in arrays], truth) <= EXACT


def find_layout(
    arrays: Arrays, truth: Arrays, known_layouts: Collection[Layout] = (), *, in_any_order: bool = False
) -> Layout | None:
    """Return the layout in which the candidate's arrays are the module's up to rounding; None if there is none.

    Args:
        arrays: a floating-point value of the candidate on each sample, of any shape.
        truth: a tensor of the module on each sample, with as many elements.
        known_layouts: layouts to try first, and their orders along an axis; where numbers repeat, as after a ReLU, they
            can't be told from the numbers.
        in_any_order: whether what lies along one axis may have any other order.
    """
    source, target = arrays[0].shape, truth[0].shape
    if math.prod(source) < FEWEST_ELEMENTS or max(len(source), len(target)) > MOST_AXES:
        return None
    for layout in (*known_layouts, *plain_layouts(source, target)):
        if layout.target == target and layout.reads(arrays, truth):
            return layout
    if in_any_order:
        for layout in _in_known_orders(source, target, known_layouts):
            if layout.reads(arrays, truth):
                return layout
    places = _places(arrays[0], truth[0])
    if places is None:
        return None
    by_numbers = layout_of_places(places, source, target)
    if by_numbers is None and in_any_order:
        by_numbers = _layout_in_another_order(places, source, target)
    return by_numbers if by_numbers is not None and by_numbers.reads(arrays, truth) else None


def plain_layouts(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[Layout]:
    """Yield the layouts of one shape in another that only reshape, or only exchange axes."""
    if source != target and math.prod(source) == math.prod(target):
        yield Layout(source, source, tuple(range(len(source))), target)
    if len(source) == len(target) and sorted(source) == sorted(target):
        for permutation in itertools.permutations(range(len(source))):
            layout = Layout(source, source, permutation, target)
            if layout.exchanges_axes and permutation != tuple(range(len(source))):
                yield layout


def with_features_in_order(shape: tuple[int, ...], order: tuple[int, ...]) -> Layout:
    """Return the layout of a tensor of which what lies along the last axis has another order in the candidate."""
    places = np.arange(math.prod(shape)).reshape(shape).take(order, -1)
    as_it_is = Layout(shape, shape, tuple(range(len(shape))), shape, len(shape) - 1, order)
    return layout_of_places(places.reshape(-1), shape, shape) or as_it_is


def _in_known_orders(source: tuple[int, ...], target: tuple[int, ...], known: Collection[Layout]) -> Iterator[Layout]:
    """Yield the layouts that exchange whole axes, or none, and have an order of known layouts along one of them."""
    kept = [Layout(source, source, tuple(range(len(source))), target)] if source == target else []
    plain = [*kept, *(layout for layout in plain_layouts(source, target) if layout.exchanges_axes)]
    for order in dict.fromkeys(layout.order for layout in known if layout.order):
        for axis in (axis for axis, size in enumerate(source) if size == len(order)):
            yield from (replace(layout, axis=axis, order=order) for layout in plain)


def _places(array: Array, truth: Array) -> Array | None:
    """Return the place of each number of the truth in an array; None if they don't have the same numbers."""
    truth_numbers, numbers = truth.reshape(-1), array.reshape(-1)
    truth_order, order = np.argsort(truth_numbers, kind="stable"), np.argsort(numbers, kind="stable")
    apart = float(np.linalg.norm(truth_numbers[truth_order] - numbers[order]))
    if not apart <= EXACT * float(np.linalg.norm(truth_numbers)):
        return None
    places = np.empty_like(truth_order)
    places[truth_order] = order
    return places


def _layout_in_another_order(places: Array, source: tuple[int, ...], target: tuple[int, ...]) -> Layout | None:
    """Return the layout with which elements lie at these places, in another order along one axis; None if it is none.

    Along each axis of the candidate's tensor, the place then depends on the index along one axis of the module's.
    """
    permutation = [-1] * len(target)
    layout = None
    for axis, index in enumerate(np.unravel_index(places.reshape(target), source)):
        along = [n for n, size in enumerate(target) if size == source[axis] and permutation[n] < 0]
        lines = ((n, np.moveaxis(index, n, -1).reshape(-1, target[n])) for n in along)
        own = next(
            ((n, line[0]) for n, line in lines if (line == line[0]).all() and len(set(line[0])) == target[n]), None
        )
        if own is None:
            return None
        permutation[own[0]] = axis
        if not np.array_equal(own[1], np.arange(source[axis])):
            if layout is not None:
                return None
            layout = (axis, tuple(map(int, own[1])))
    return None if layout is None else Layout(source, source, tuple(permutation), target, *layout)


def layout_of_places(places: Array, source: tuple[int, ...], target: tuple[int, ...]) -> Layout | None:
    """Return the layout with which the elements of the module's tensor lie at these places; None if it is none.

    Args:
        places: the position in the candidate's value for each element of the module's tensor, both in row-major order.
        source: shape of the candidate's value.
        target: shape of the module's tensor.
    """
    digits = _digits(places)
    if digits is None:
        return None
    if not digits:
        return Layout(source, source, tuple(range(len(source))), target)
    sizes, strides = zip(*reversed(digits), strict=True)  # those of the module's order, the outermost first
    by_stride = sorted(range(len(sizes)), key=lambda axis: -strides[axis])
    divided = tuple(sizes[axis] for axis in by_stride)
    permutation = tuple(by_stride.index(axis) for axis in range(len(sizes)))
    return Layout(source, divided, permutation, target)


def _digits(places: Array) -> list[tuple[int, int]] | None:
    """Return sizes and strides of the axes, the innermost first, if these are the places of a tensor's elements.

    They are if each place is a sum of strides, one for each axis, times the index along it.
    """
    count = len(places)
    digits: list[tuple[int, int]] = []
    below = np.zeros(1, places.dtype)
    while len(below) < count:
        unit = len(below)
        stride = int(places[unit])
        size = 2
        while size * unit < count and places[size * unit] == size * stride:
            size += 1
        while count % (size * unit):
            size -= 1
        if size < 2:
            return None
        digits.append((size, stride))
        below = (np.arange(size)[:, None] * stride + below).reshape(-1)
    is_complete = len(digits) <= MOST_AXES and np.array_equal(below, places)
    return digits if is_complete and len({stride for _, stride in digits}) == len(digits) else None
