"""Tensors that a file joins from the same parts as the module, in another order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ...correspondence.distances import EXACT, Arrays, distance
from ...correspondence.layouts import Layout


def layout_of_parts(
    program: Program, value: Value, tensor: Arrays, arrays_of: Callable[[Value], Arrays]
) -> Layout | None:
    """Return the layout of a tensor in a value that joins its parts in another order; None if it doesn't.

    The parts tell where single numbers don't, since many are zero after a ReLU. Two equal parts tell nothing.

    Args:
        program: the file's program.
        value: the value.
        tensor: the module's tensor, on each sample.
        arrays_of: returns a value of the file on each sample.
    """
    node, shape = program.producers.get(value), tensor[0].shape
    if node is None or node.op != "concat" or arrays_of(value)[0].shape != shape:
        return None
    axis = node.attributes["axis"] % len(shape)
    along = [[np.moveaxis(array, axis, 0) for array in arrays_of(part)] for part in node.inputs if part is not None]
    ends = np.cumsum([len(part[0]) for part in along])
    order: list[int] = []
    while len(order) < shape[axis]:
        rest = [np.moveaxis(array, axis, 0)[len(order) :] for array in tensor]
        same = [number for number, part in enumerate(along) if _begin_with(rest, part)]
        if len(same) != 1 or ends[same[0]] - 1 in order:
            return None
        order += range(int(ends[same[0]]) - len(along[same[0]][0]), int(ends[same[0]]))
    return Layout(shape, shape, tuple(range(len(shape))), shape, axis, tuple(order))


def _begin_with(arrays: Arrays, first: Arrays) -> bool:
    """Whether arrays begin with others, along their first axis."""
    return distance([array[: len(part)] for array, part in zip(arrays, first, strict=True)], first) <= EXACT
