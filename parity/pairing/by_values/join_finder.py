"""The tensors of a module that a file has in several values, one after the other along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....runtime.ir.types import Node, Value
from ....runtime.namespace import Namespace
from ...correspondence.distances import EXACT, Arrays, distance
from ...correspondence.layouts import FEWEST_ELEMENTS, Layout
from .crossings import Crossing
from .divided_axes import MOST_STACKED, DivisionFinder
from .equal_values import last_before_branch
from .file_values import FileValues
from .joined_values import Joined
from .loop_steps import values_of_turns
from .meeting_uses import uses_that_meet

PRODUCTS = ("linear", "matmul", "add", "conv")
MOST_PARTS = 4


class JoinFinder:
    """Finds the tensors of the module that agree with several values of a file, one after the other.

    Where one part is wrong, the others say which value it is: the one that is computed from the same input.

    Args:
        file: the values of the file's program.
        of_shape: those that are floating-point numbers of known sizes, by shape.
    """

    def __init__(self, file: FileValues, of_shape: Mapping[tuple[int, ...], Sequence[Value]]) -> None:
        self.file = file
        self.of_shape = of_shape
        self.names = Namespace((value.name for value in file.values), first=1)
        self.taken: set[Value] = set()
        self.shared: set[Value] = set()
        self.uses: set[Node] = set()
        self.division = DivisionFinder(file, of_shape)

    def find(self, tensor: Crossing) -> Joined | None:
        """Return the parts of a tensor; None if the file doesn't have them."""
        for axis in reversed(range(len(tensor.shape))):
            if (parts := self._parts(tensor, axis)) is not None and self._take(parts, tensor):
                return self._joined(parts, axis, tensor.shape)
            if (stacked := self.division.stacked(tensor, axis, self.taken)) is not None:
                self.taken.update(value for value, _ in stacked.parts)
                return Joined.of(stacked.parts, axis, tensor.shape, self.names)
        for axis in range(len(tensor.shape)):
            divided = self.division.find(tensor, axis, self.taken)
            if divided is not None and self._have_one_input([value for value, _ in divided.parts]):
                self.taken.update(value for value, _ in divided.parts)
                return Joined.of(divided.parts, divided.axis, tensor.shape, self.names)
        return None

    def _take(self, parts: Sequence[Value], tensor: Crossing) -> bool:
        """Take parts for a tensor, for their uses that meet if there are some; return whether they were free.

        What the file joins itself, in another order, is the tensor.
        """
        uses = uses_that_meet(self.file.flat.program, parts).uses
        size = tensor.arrays[0].size
        if any(self.file.values[node.outputs[0]][0].size == size for node in uses if node.op == "concat"):
            return False
        free = self.uses.isdisjoint(uses) if uses else self.shared.isdisjoint(parts)
        if not free or not self.taken.isdisjoint(parts):
            return False
        (self.shared if uses else self.taken).update(parts)
        self.uses |= uses
        return True

    def _joined(
        self, parts: Sequence[Value], axis: int, shape: tuple[int, ...], *, has_all_uses: bool = False
    ) -> Joined:
        """Return values joined along an axis, which each has, or which each lacks."""
        has_axis = len(self.file.current(parts[0])[0].shape) == len(shape)
        layouts = []
        for part in parts:
            own = self.file.current(part)[0].shape
            piece = own if has_axis else (*shape[:axis], 1, *shape[axis + 1 :])
            layouts.append(Layout(own, own, tuple(range(len(own))), piece))
        return Joined.of(list(zip(parts, layouts, strict=True)), axis, shape, self.names, has_all_uses=has_all_uses)

    def suppose(self, tensor: Crossing) -> list[Joined]:
        """Return values of the turns of a loop that may be a tensor at the places along an axis.

        Behind a wrong value, no turn agrees. Nor does the last state, which is then taken from the tensor.
        """
        joined_values: list[Joined] = []
        for axis in reversed(range(len(tensor.shape))):
            shape = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
            if 2 <= tensor.shape[axis] <= MOST_STACKED:
                for parts in values_of_turns(self.file, shape, tensor.shape[axis]):
                    if self.taken.isdisjoint(parts):
                        self.taken.update(parts)
                        joined_values.append(self._joined(parts, axis, tensor.shape, has_all_uses=True))
        return joined_values

    def lacking(self, tensor: Crossing) -> list[Arrays]:
        """Return the parts of a tensor that the file lacks beside others that it has: it may compute them wrongly."""
        lacking: list[Arrays] = []
        for axis in range(len(tensor.shape)):
            at = self._known_parts(tensor, axis)
            self._add_parts(at, tensor, axis, [0])  # the last one, too, where no other one is there
            start = 0
            for end, following in [*sorted(at.items()), (tensor.shape[axis], None)]:
                if at and start < end:
                    part = [np.take(array, range(start, end), axis) for array in tensor.arrays]
                    lacking += [part] if part[0].size >= FEWEST_ELEMENTS else []
                start = end if following is None else end + int(self.file.current(following)[0].shape[axis])
        return lacking

    def _known_parts(self, tensor: Crossing, axis: int) -> dict[int, Value]:
        """Return the values that are parts of a tensor, by where they start along an axis."""
        at: dict[int, Value] = {}
        self._add_parts(at, tensor, axis, ())
        count = 0
        while count < len(at) < MOST_PARTS:  # of several widths: the last part, and those that begin where another ends
            count = len(at)
            ends = [start + int(self.file.current(part)[0].shape[axis]) for start, part in at.items()]
            self._add_parts(at, tensor, axis, ends)
        return at

    def _parts(self, tensor: Crossing, axis: int) -> tuple[Value, ...] | None:
        size, at = tensor.shape[axis], self._known_parts(tensor, axis)
        parts: list[Value | None] = []
        sizes: list[int] = []
        width = min((int(self.file.current(part)[0].shape[axis]) for part in at.values()), default=size)
        start = 0
        while start < size:
            part = at.get(start)
            end = min((other for other in at if other > start), default=size)
            length = min(end - start, width) if part is None else int(self.file.current(part)[0].shape[axis])
            parts.append(part)
            sizes.append(length)
            start += length
        if start != size or not 2 <= len(parts) <= MOST_PARTS or not at:
            return None
        return self._completed(parts, sizes, tensor.shape, axis)

    def _add_parts(self, at: dict[int, Value], tensor: Crossing, axis: int, ends: Sequence[int]) -> None:
        """Add the values that are parts of a tensor, by where they start.

        That is at a multiple of their own size or, if other parts end somewhere, there, or so that they are the last.
        """
        size = tensor.shape[axis]
        others = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
        of_length = [shape for shape in self.of_shape if len(shape) == len(tensor.shape)]
        fitting = [s for s in of_length if 0 < s[axis] < size and (*s[:axis], *s[axis + 1 :]) == others]
        for shape in sorted(fitting, key=lambda shape: -shape[axis]):  # few wide parts rather than many
            values = self.of_shape[shape]
            last = size - shape[axis]
            for start in [last, *ends] if ends else range(0, last + 1, shape[axis]):
                if start in at or start + shape[axis] > size:
                    continue
                pieces = [np.take(array, range(start, start + shape[axis]), axis) for array in tensor.arrays]
                same = next((v for v in values if distance(self.file.current(v), pieces) <= EXACT), None)
                if same is not None:
                    # what a loop carries on is used after it was detached, or added to the zeros at the start
                    at[start] = last_before_branch(self.file, same, 0, {})

    def _completed(
        self, parts: Sequence[Value | None], sizes: Sequence[int], shape: tuple[int, ...], axis: int
    ) -> tuple[Value, ...] | None:
        """Return the parts, with the values that may be the missing ones, in the order in which they are computed."""
        known = [part for part in parts if part is not None]
        if len(set(known)) < len(known):  # a value that the module repeats has one gradient, not one for each part
            return None
        inputs = {self._input_of(part) for part in known} - {None}
        missing = [size for part, size in zip(parts, sizes, strict=True) if part is None]
        part_shapes = {tuple(size if n == axis else own for n, own in enumerate(shape)) for size in missing}
        siblings = [
            value
            for other in part_shapes
            for value in self.of_shape.get(other, [])
            if value not in known and self._input_of(value) in inputs and self._is_last(value)
        ]
        siblings.sort(key=self.file.rank.__getitem__)
        if [self.file.current(value)[0].shape[axis] for value in siblings] != missing:
            return None
        free = iter(siblings)
        return tuple(next(free) if part is None else part for part in parts)

    def _input_of(self, value: Value) -> Value | None:
        """Return what a product is computed from, also one to which a bias was added; None for other values."""
        node = self.file.flat.program.producers.get(value)
        if node is None or node.op not in PRODUCTS or node.inputs[0] is None:
            return None
        return self._input_of(node.inputs[0]) or node.inputs[0] if node.op == "add" else node.inputs[0]

    def _have_one_input(self, values: Sequence[Value]) -> bool:
        """Whether values are products of the same: others are equal to parts of a tensor by chance, such as zeros."""
        inputs = {self._input_of(value) for value in values}
        return len(inputs) == 1 and None not in inputs

    def _is_last(self, value: Value) -> bool:
        """Whether no bias is added to a product any more."""
        following = (out for node in self.file.flat.consumers.get(value, []) for out in node.outputs)
        return all(self._input_of(out) is not self._input_of(value) for out in following)
