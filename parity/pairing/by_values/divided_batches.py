"""Tensors that a module computes one by one and a file together: experts, branches or steps along an axis of one value.

What the file computes along that axis is divided, as far as each place depends on its own slices of the operands, so
that each Cell of the module has nodes of its own. What else uses the value gets the parts joined again.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, ProgramParameter, Source, Value
from ....runtime.namespace import Namespace
from ....runtime.ops.registry import get
from ...correspondence.distances import EXACT, EqualArrays, distance
from ...correspondence.layouts import FEWEST_ELEMENTS, find_layout
from ...sides.records import Array
from .crossings import Crossing
from .divided_products import PART
from .file_values import FileValues
from .flat import without_idle_nodes
from .views import has_known_sizes

MOST_PLACES = 64
"""The most places along an axis that is divided."""
MOST_NODES = 2000
"""The most nodes that follow those that were found and are divided."""
MOST_WAYS = 32
"""The most ways to divide a node that are tried."""


def divide_batches(file: FileValues, tensors: Sequence[Crossing], places: Mapping[Crossing, Value]) -> Program | None:
    """Return the file's program with values divided that hold several of these tensors; None if there are none.

    Args:
        file: the values of the program.
        tensors: the tensors that cross the module's boundaries.
        places: the places of those that have one.
    """
    stored = file.flat.program.constant_data
    floating = {v: arrays for v, arrays in file.values.items() if arrays[0].dtype.kind == "f" and v not in stored}
    equal = EqualArrays(floating.items())
    whole = set(places.values())
    missing: list[Crossing] = []
    for tensor in tensors:
        if tensor not in places and tensor.can_have_a_place and tensor.arrays[0].size >= FEWEST_ELEMENTS:
            same = equal.find(tensor.arrays)
            whole.update(same)
            missing += [] if same else [tensor]
    axes = _axes_of_several(file, missing, [v for v in floating if v not in whole and has_known_sizes(v)])
    if not axes:
        return None
    division = _Division(file, whole, set(places.values()))
    for value, axis in axes.items():
        division.plan(value, axis)
    division.follow()
    return division.program()


def _axes_of_several(file: FileValues, missing: Sequence[Crossing], values: Sequence[Value]) -> dict[Value, int]:
    """Return the values of which the slices along an axis are different tensors, with the axis."""
    found: dict[Value, int] = {}
    free = list(missing)
    for value in sorted(values, key=file.rank.__getitem__):
        array = file.values[value][0]
        for axis, count in enumerate(array.shape):
            if not 2 <= count <= MOST_PLACES or array.size // count < FEWEST_ELEMENTS or value in found:
                continue
            of_size = [tensor for tensor in free if tensor.arrays[0].size * count == array.size]
            if len(of_size) < 2:
                continue
            norms = [float(np.linalg.norm(np.take(array, n, axis))) for n in range(count)]
            held = [tensor for tensor in of_size if _is_slice(file, value, axis, norms, tensor)]
            if len(held) > 1:
                found[value] = axis
                free = [tensor for tensor in free if tensor not in held]
    return found


def _is_slice(file: FileValues, value: Value, axis: int, norms: Sequence[float], tensor: Crossing) -> bool:
    norm = float(np.linalg.norm(tensor.arrays[0]))
    for place, other in enumerate(norms):
        if abs(norm - other) <= EXACT * norm:
            slices = [np.take(array, place, axis) for array in file.values[value]]
            reshaped = [one.reshape(array.shape) for one, array in zip(slices, tensor.arrays, strict=True)]
            if distance(reshaped, tensor.arrays) <= EXACT or find_layout(slices, tensor.arrays) is not None:
                return True
    return False


@dataclass(frozen=True)
class _Way:
    """How a node is divided: the axis of its result, and those of its operands; None for one that is used whole."""

    node: Node
    axis: int
    operands: tuple[int | None, ...]


@dataclass
class _Division:
    """A program in which values are divided along an axis.

    Attributes:
        file: the values of the program.
        whole: values that are tensors of the module as they are.
        kept: values that stay although nothing may depend on them.
    """

    file: FileValues
    whole: Collection[Value]
    kept: Collection[Value]
    axes: dict[Value, int] = field(default_factory=dict)
    ways: dict[Node, _Way] = field(default_factory=dict)
    parts: dict[Value, list[Value]] = field(default_factory=dict)
    parameters: dict[str, ProgramParameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Namespace((value.name for value in self.file.values), first=1)
        self.before = self.file.flat.program
        self.name_of = {parameter.value: name for name, parameter in self.before.parameters.items()}

    def plan(self, value: Value, axis: int) -> None:
        """Decide how a value is divided, and what it is computed from."""
        if value in self.axes:
            return
        self.axes[value] = axis
        node = self.before.producers.get(value)
        if node is not None and _joins_parts(node, axis):
            self.parts[value] = [operand for operand in node.inputs if operand is not None]
            return
        way = None if node is None or len(node.outputs) > 1 else self._way(node, axis)
        if way is not None:
            self.ways[way.node] = way
            for operand, own in zip(way.node.inputs, way.operands, strict=True):
                if operand is not None and own is not None and operand not in self.whole:
                    self.plan(operand, own)

    def follow(self) -> None:
        """Divide what is computed from parts alone, too: behind a wrong value it isn't known by its numbers."""
        for node in self.before.nodes:
            value, own = node.outputs[0], [v for v in node.inputs if v is not None and v in self.axes]
            if not own or value in self.axes or len(node.outputs) > 1 or not has_known_sizes(value):
                continue
            count = self._array(own[0]).shape[self.axes[own[0]]]
            if count * len(self.ways) > MOST_NODES:
                return
            for axis in (axis for axis, size in enumerate(value.type.sizes or ()) if size == count):
                way = self._way(node, axis)
                pairs = () if way is None else zip(node.inputs, way.operands, strict=True)
                if way is not None and all(v is None or self.axes.get(v, of) == of for v, of in pairs):
                    self.plan(value, axis)
                    break

    def _way(self, node: Node, axis: int) -> _Way | None:
        """Return how a node is divided; None if its slices depend on more than slices of the operands."""
        count = self._array(node.outputs[0]).shape[axis]
        options: list[list[int | None]] = []
        for operand in node.inputs:
            sizes = () if operand is None else self._array(operand).shape
            options.append([*(own for own, size in enumerate(sizes) if size == count), None])
        ways = (way for way in itertools.product(*options) if any(own is not None for own in way))
        for operands in itertools.islice(ways, MOST_WAYS):
            way = _Way(node, axis, operands)
            if all(self._computes(way, place) for place in (0, count - 1)):
                return way
        return None

    def _computes(self, way: _Way, place: int) -> bool:
        """Whether slices of the operands make the slice of the result."""
        arrays: list[Array | None] = []
        for operand, own in zip(way.node.inputs, way.operands, strict=True):
            array = None if operand is None else self._array(operand)
            arrays.append(array if array is None or own is None else np.take(array, [place], own))
        expected = np.take(self._array(way.node.outputs[0]), [place], way.axis)
        try:
            result = get(way.node.op)(*arrays, **_attributes(way))
        except (CellbridgeError, ValueError):  # it doesn't take the slices
            return False
        return distance([np.asarray(result)], [expected]) <= EXACT

    def _array(self, value: Value) -> Array:
        if value in self.file.values:
            return self.file.current(value)[0]
        data = self.before.constant_data[value]
        return data.astype(np.float64) if data.dtype.kind == "f" else data

    def program(self) -> Program:
        """Return the program."""
        nodes: list[Node] = []
        for value in self.axes:
            if value not in self.before.producers:
                nodes += self._slices(value, 0, None)
        for node in self.before.nodes:
            way = self.ways.get(node)
            if way is None:
                nodes.append(node)
                for value in node.outputs:
                    if value in self.axes and not _joins_parts(node, self.axes[value]):
                        nodes += self._slices(value, node.cell, node.source)
            else:
                nodes += self._divided(way)
        parameters = {**self.before.parameters, **self.parameters}
        return without_idle_nodes(self.before.replace(nodes=tuple(nodes), parameters=parameters), self.kept)

    def _slices(self, value: Value, cell: int, source: Source | None) -> Iterator[Node]:
        """Yield the nodes that take a value's parts; those of a parameter are parameters."""
        axis = self.axes[value]
        parts = self._parts_of(value)
        if (name := self.name_of.get(value)) is not None:
            old = self.before.parameters[name]
            for place, part in enumerate(parts):
                data = np.take(old.data, [place], axis)
                self.parameters[f"{name}{PART}{place}"] = ProgramParameter(part, data, old.trainable)
            return
        for place, part in enumerate(parts):
            yield Node("slice", (value,), _bounds(place, axis), (part,), cell, source)

    def _parts_of(self, value: Value) -> list[Value]:
        if value not in self.parts:
            axis, shape = self.axes[value], value.type.sizes
            assert shape is not None, "only values of known sizes are divided"
            self.parts[value] = [self._part(value, axis, place) for place in range(shape[axis])]
        return self.parts[value]

    def _part(self, value: Value, axis: int, place: int) -> Value:
        shape = value.type.sizes or ()
        narrow = value.type.with_shape((*shape[:axis], 1, *shape[axis + 1 :]))
        return Value(self.names.unique(f"{value.name}{PART}{place}"), narrow)

    def _divided(self, way: _Way) -> Iterator[Node]:
        node, (result,) = way.node, way.node.outputs
        parts = self._parts_of(result)
        for place, part in enumerate(parts):
            operands: list[Value | None] = []
            for operand, own in zip(node.inputs, way.operands, strict=True):
                if operand is None or own is None:
                    operands.append(operand)
                elif self.axes.get(operand) == own:
                    operands.append(self._parts_of(operand)[place])
                else:
                    taken = self._part(operand, own, place)
                    yield Node("slice", (operand,), _bounds(place, own), (taken,), node.cell, node.source)
                    operands.append(taken)
            yield Node(node.op, tuple(operands), _attributes(way), (part,), node.cell, node.source)
        yield Node("concat", tuple(parts), {"axis": way.axis}, (result,), node.cell, node.source)


def _joins_parts(node: Node, axis: int) -> bool:
    """Whether a node joins values of size 1 along an axis."""
    if node.op != "concat" or node.attributes["axis"] != axis:
        return False
    return all(value is not None and value.shape[axis] == 1 for value in node.inputs)


def _bounds(place: int, axis: int) -> dict[str, tuple[int, ...]]:
    return {"starts": (place,), "stops": (place + 1,), "steps": (1,), "axes": (axis,)}


def _attributes(way: _Way) -> Mapping[str, Any]:
    """Return the attributes of a divided node: a shape has size 1 along the axis."""
    attributes = dict(way.node.attributes)
    if way.node.op in ("reshape", "broadcast_to"):
        shape = list(attributes["shape"])
        shape[way.axis] = 1
        attributes["shape"] = tuple(shape)
    return attributes
